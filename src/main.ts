/** Roles: `api`, `worker`, or `all`, which is both in one process (as `npm start` runs it). */

import { ConfigError, readConfig } from './config.js';
import { serve } from './service.js';

const role = process.argv[2];
if (role !== 'api' && role !== 'worker' && role !== 'all') {
  process.stderr.write('usage: node dist/src/main.js api|worker|all\n');
  process.exit(2);
}
try {
  await serve(role, readConfig());
  // A connection that is still being made would keep the process.
  process.exit(0);
} catch (err) {
  process.stderr.write(
    // An error of the native client has no stack.
    `${err instanceof ConfigError ? err.message : String(err instanceof Error ? (err.stack ?? err) : err)}\n`,
  );
  process.exit(1);
}
