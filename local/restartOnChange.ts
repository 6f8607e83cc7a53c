import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, statSync, watch } from 'node:fs';
import { join, relative } from 'node:path';
import { messageOf } from '../src/log.js';
import { projectDir } from '../src/operator/npmStart.js';
import type { Supervisor } from './supervisor.js';

/** Builds each change and restarts the service, for `npm run dev`. The servers stay up, even if the change is broken. */
export function restartOnChange(
  supervisor: Supervisor,
  say: (line: string) => void,
  startService: () => Promise<void>,
): void {
  watchSources(projectDir, ['src', 'workflows', 'activities'], async (file) => {
    if (supervisor.isStopping) return;
    console.log(`\n${file} changed`);
    if (!(await builds())) return say('the change does not compile; the service keeps running without it');
    try {
      await supervisor.replaceService(startService);
    } catch (err) {
      console.error(messageOf(err));
      say('the service restarts at the next change');
    }
  });
}

async function builds(): Promise<boolean> {
  const args = [join(projectDir, 'local/launch.mjs'), 'build'];
  const [status] = await once(spawn(process.execPath, args, { stdio: ['ignore', 2, 2] }), 'exit');
  return status === 0;
}

/** Editors write a file in several steps; steps within this time are one change. */
const settleMs = 100;

/**
 * Calls `onChange` with a changed file in one of the folders: never twice at the same time, and once more if
 * another file changed meanwhile. Paths are relative to the project folder.
 * @param onChange must not reject
 */
function watchSources(
  projectDir: string,
  folders: readonly string[],
  onChange: (file: string) => Promise<void>,
): void {
  const watched = new Set<string>();
  let changed: string | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isBusy = false;
  for (const folder of folders) watchTree(join(projectDir, folder));

  /** Watches each folder: with `recursive`, Node 20 loses a file that an editor has replaced. */
  function watchTree(folder: string): void {
    if (watched.has(folder)) return;
    watched.add(folder);
    const watcher = watch(folder, (_, name) => {
      if (name !== null) see(join(folder, name));
    });
    watcher.on('error', () => watched.delete(folder));
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (entry.isDirectory()) watchTree(join(folder, entry.name));
    }
  }

  function see(path: string): void {
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) watchTree(path);
    // Editors write names such as `4913` and `main.ts~` beside a file.
    if (!/\.[a-z]+$/.test(path)) return;
    changed = relative(projectDir, path);
    clearTimeout(timer);
    timer = setTimeout(() => void work(), settleMs);
  }

  async function work(): Promise<void> {
    if (isBusy) return;
    isBusy = true;
    for (let file = changed; file !== undefined; file = changed) {
      changed = undefined;
      await onChange(file);
    }
    isBusy = false;
  }
}
