/** Roles: `api`, `worker`, or `all`, which is both in one process (as `npm start` runs it). */
import { ConfigError, readConfig } from './config.js';

const role = process.argv[2];
if (role !== 'api' && role !== 'worker' && role !== 'all') {
  process.stderr.write('usage: node dist/src/main.js api|worker|all\n');
  process.exit(2);
}
// Only its text: Node would print all of it, and an error of Redis has the arguments of its command.
process.on('uncaughtException', (err) => {
  // An error of the native client has no stack.
  const text = err instanceof ConfigError ? err.message : (err?.stack ?? err);
  process.stderr.write(`${text}\n`);
  process.exit(1);
});
const config = readConfig();
// Its modules take a second to load: a wrong setting is said before.
const { serve } = await import('./service.js');
await serve(role, config);
// A connection that is still being made would keep the process.
process.exit(0);
