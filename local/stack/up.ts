import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readRunStateIn } from '../../src/operator/running/runState.js';
import { logFile } from '../logFile.js';
import { stackDir } from './folders.js';
import { findPrograms } from './programs.js';
import { status } from './status.js';
import type { FromSupervisor } from './supervise.js';

/** Starts the supervisor in the background, prints its progress, and returns once the stack can be used. @throws Error if the start fails */
export async function up(): Promise<void> {
  const dir = stackDir();
  if (readRunStateIn(dir)) {
    console.log('it already runs:\n');
    await status(false);
    return;
  }
  const begun = Date.now();
  // In this process, so that Ctrl-C also ends a build.
  await findPrograms((line) => console.log(`  ${line}`));
  mkdirSync(join(dir, 'logs'), { recursive: true, mode: 0o700 });
  const log = openSync(logFile(dir, 'stack'), 'a', 0o600);
  const program = join(dirname(fileURLToPath(import.meta.url)), 'supervise.js');
  const supervisor = spawn(process.execPath, [program], {
    detached: true,
    stdio: ['ignore', log, log, 'ipc'],
  });
  closeSync(log);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => supervisor.kill());

  const isUp = await new Promise<boolean>((resolve) => {
    supervisor.once('error', () => resolve(false));
    supervisor.once('exit', () => resolve(false));
    supervisor.on('message', (message: FromSupervisor) => {
      if ('say' in message) console.log(`  ${message.say}`);
      else resolve(true);
    });
  });
  if (!isUp) throw new Error(`the stack is not up; its logs are in ${join(dir, 'logs')}`);
  supervisor.unref();
  const state = readRunStateIn(dir);
  const prometheus = state?.children.some(({ name }) => name === 'prometheus');
  console.log(`
up after ${((Date.now() - begun) / 1000).toFixed(1)} s

  API          ${state?.apiUrl}   (${state?.apiUrl}/docs)
  Temporal     ${state?.temporalAddress}
  Redis        ${state?.redisUrl}${prometheus ? `\n  Prometheus   http://127.0.0.1:${state?.ports?.prometheus}` : ''}
  logs, data   ${dir}

  npm run stack -- status | down | backup | restore FOLDER
  DATA_DIR=${dir} npm run -s operator -- demo     or any other operator command`);
  process.exit(0);
}
