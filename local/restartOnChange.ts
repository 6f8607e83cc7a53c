import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { messageOf } from '../src/log.js';
import { projectDir } from '../src/operator/npmStart.js';
import type { Supervisor } from './supervisor.js';
import { watchSources } from './watchSources.js';

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
