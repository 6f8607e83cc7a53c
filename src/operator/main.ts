/** `npm run -s operator -- <command>`: runs one command and ends with its exit status. */
import { execute, exitStatus } from './program.js';

// A reader that closes the pipe (`| head`) is no failure.
process.stdout.on('error', (err: NodeJS.ErrnoException) => {
  process.exit(err.code === 'EPIPE' ? exitStatus.done : exitStatus.refused);
});
process.stderr.on('error', () => {});

process.exitCode = await execute(process.argv.slice(2));
