/** `npm run -s operator -- <command>`: runs one command and answers with its exit status. */
import { type Command, CommanderError } from 'commander';
import { createProgram, type GlobalOptions } from './program.js';
import type { Session } from './session.js';

const status = { done: 0, refused: 1, wrongUsage: 2 };

// A reader that closes the pipe (`| head`) is no failure.
process.stdout.on('error', (err: NodeJS.ErrnoException) => {
  process.exit(err.code === 'EPIPE' ? status.done : status.refused);
});
process.stderr.on('error', () => {});

process.exitCode = await run(process.argv.slice(2));

async function run(args: string[]): Promise<number> {
  let session: Session | undefined;
  const program: Command = createProgram(async () => {
    const { openSession } = await import('./session.js');
    session = openSession(program.opts<GlobalOptions>());
    return session;
  });
  try {
    await program.parseAsync(args, { from: 'user' });
    return status.done;
  } catch (err) {
    return await exitStatus(err);
  } finally {
    await session?.close();
  }
}

async function exitStatus(err: unknown): Promise<number> {
  if (err instanceof CommanderError) {
    const asked = ['commander.helpDisplayed', 'commander.version'].includes(err.code);
    return asked || (err.code === 'commander.help' && err.exitCode === 0) ? status.done : status.wrongUsage;
  }
  const { reasonOf } = await import('./reason.js');
  process.stderr.write(`${reasonOf(err)}\n`);
  return status.refused;
}
