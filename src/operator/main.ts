/** `npm run -s operator -- <command>`: runs one command and ends with its exit status. */
import { execute, exitStatus } from './program.js';

process.stdout.on('error', (err: NodeJS.ErrnoException) => {
  // A reader that closes the pipe (`| head`) is no failure.
  if (err.code === 'EPIPE') process.exit(exitStatus.done);
  process.stderr.write(`The answer cannot be written: ${err.message}.\n`);
  process.exit(exitStatus.refused);
});
process.stderr.on('error', () => {});

process.exitCode = await execute(process.argv.slice(2));
