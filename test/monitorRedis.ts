import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';

/**
 * Passes on each command that a Redis executes, with its arguments, from now on. ioredis' own `monitor` fails with
 * "Command queue state error" if the server is busy: the first commands then come together with its OK.
 * @returns ends it
 */
export async function monitorRedis(url: string, hear: (args: string[]) => void): Promise<() => void> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const lines = createInterface({ input: socket });
  socket.write('MONITOR\r\n');
  await once(lines, 'line');
  // +1339518083.107412 [0 127.0.0.1:60866] "set" "a key" "with \"quotes\""
  lines.on('line', (line) => hear([...line.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, arg = '']) => arg)));
  return () => socket.destroy();
}
