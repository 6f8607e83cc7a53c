/** One run of the command line, without its process: {@link run}. */
import { type Command, CommanderError } from 'commander';
import { createProgram } from './program.js';
import { reasonOf } from './reason.js';
import { openSession, type Session } from './session.js';

export const status = { done: 0, refused: 1, wrongUsage: 2 };

/** Runs one command, given the words after `operator`. @returns its exit status */
export async function run(args: string[]): Promise<number> {
  let session: Session | undefined;
  const program: Command = createProgram(() => {
    session = openSession(program.opts());
    return session;
  });
  try {
    await program.parseAsync(args, { from: 'user' });
    return status.done;
  } catch (err) {
    return exitStatus(err);
  } finally {
    await session?.close();
  }
}

function exitStatus(err: unknown): number {
  // Help that was asked for has 0.
  if (err instanceof CommanderError) return err.exitCode === 0 ? status.done : status.wrongUsage;
  process.stderr.write(`${reasonOf(err)}\n`);
  return status.refused;
}
