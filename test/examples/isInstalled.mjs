/**
 * `node isInstalled.mjs NAME PROGRAM...`: exit status 0 where each program runs and the packages of an example's framework were
 * brought for this clone, which takes minutes and hundreds of megabytes: `npm run test:nightly` brings them.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const [name, ...programs] = process.argv.slice(2);
const cache = join(import.meta.dirname, '../../.cache');
const isThere =
  process.env.INSTALL_FRAMEWORKS !== undefined ||
  (existsSync(cache) && readdirSync(cache).some((folder) => folder.startsWith(`example-${name}-`)));
const runs = (program) => spawnSync(program, ['--version'], { stdio: 'ignore' }).status === 0;
process.exit(isThere && programs.every(runs) ? 0 : 1);
