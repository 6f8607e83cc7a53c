/** Roles: `api`, `worker`, or `all`, which is both in one process (as `npm start` runs it). */
const ending = new AbortController();
// Before any module is loaded: the first process of a container is not ended by a signal to which it does not listen. A repeated
// signal changes nothing: npm passes on the Ctrl-C that a terminal has sent already.
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => ending.abort(signal));
// Only its text: Node would print all of it, and an error of Redis has the arguments of its command.
process.on('uncaughtException', (err) => {
  // An error of the native client has no stack.
  const text = err?.name === 'ConfigError' ? err.message : (err?.stack ?? err);
  process.stderr.write(`${text}\n`);
  process.exit(1);
});

const role = process.argv[2];
if (role !== 'api' && role !== 'worker' && role !== 'all') {
  process.stderr.write('usage: node dist/src/main.js api|worker|all\n');
  process.exit(2);
}
const { readConfig } = await import('./config.js');
const config = readConfig();
// Its modules take a second to load: a wrong setting is said before.
const { serve } = await import('./service.js');
await serve(role, config, ending);
// A connection that is still being made would keep the process.
process.exit(0);
