/** The command line at a terminal: Python has one to give, Node has not. */
import { spawn } from 'node:child_process';
import { type Cli, commandLine } from './cli.js';

/** Copies what the command writes; ends with its status. With `until` it sends SIGINT once that was written. */
const script = `
import os, pty, signal, sys
until, chunks, pid_sent = sys.argv[1].encode(), b'', False
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
while True:
    try:
        data = os.read(fd, 65536)
    except OSError:
        break
    if not data:
        break
    chunks += data
    os.write(1, data)
    if until and until in chunks and not pid_sent:
        pid_sent = True
        os.kill(pid, signal.SIGINT)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 0xff)
`;

/** @param until ended with Ctrl-C once it has written this */
export function runAtTerminal(
  cli: Cli,
  args: readonly string[],
  options: { env?: NodeJS.ProcessEnv; until?: string } = {},
): Promise<{ status: number | null; shown: string }> {
  const { env, until = '' } = options;
  const child = spawn('python3', ['-c', script, until, ...commandLine, ...args], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, TERM: 'xterm-256color', ...cli.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let shown = '';
  child.stdout.on('data', (part) => {
    shown += part;
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (status) => resolve({ status, shown }));
  });
}
