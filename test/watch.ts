/**
 * `npm run test:watch -- FILE...`: runs mocha on the files, and again at every change of the code, in a new process each
 * time and on servers that stay.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { watchSources } from '../local/watchSources.js';
import { startServers } from './servers.js';

const projectDir = join(import.meta.dirname, '..');
const { servers, stop } = await startServers();
let running: ChildProcess | undefined;
let isEnding = false;

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void end());
watchSources(projectDir, ['src', 'workflows', 'activities', 'local', 'test'], async (file) => {
  console.log(`\n${file} changed`);
  await run(file.startsWith('test/'));
});
await run(true);

/** Tests start built processes, and workflows run from a bundle: both are built again, unless only a test changed. */
async function run(isBuilt: boolean): Promise<void> {
  if (!isBuilt && (await ends(['local/launch.mjs', 'build'])) !== 0) return;
  await ends(['node_modules/mocha/bin/mocha.js', ...process.argv.slice(2)]);
  console.log('waiting for a change (Ctrl-C ends)');
}

async function ends(args: string[]): Promise<number | null> {
  const env = { ...process.env, TEST_SERVERS: JSON.stringify(servers) };
  running = spawn(process.execPath, args, { cwd: projectDir, stdio: 'inherit', env });
  const [code] = await once(running, 'exit');
  running = undefined;
  return code;
}

async function end(): Promise<void> {
  if (isEnding) return;
  isEnding = true;
  running?.kill();
  await stop();
  process.exit(0);
}
