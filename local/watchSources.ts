import { readdirSync, statSync, watch } from 'node:fs';
import { join, relative } from 'node:path';

/** Editors write a file in several steps; steps within this time are one change. */
const settleMs = 100;

/**
 * Calls `onChange` with a changed file in one of the folders: never twice at the same time, and once more if
 * another file changed meanwhile. Paths are relative to the project folder.
 * @param onChange must not reject
 */
export function watchSources(
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
