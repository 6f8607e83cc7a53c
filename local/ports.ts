import { randomInt } from 'node:crypto';
import { connect, createServer } from 'node:net';

/**
 * Below the range of outgoing connections (Linux from 32768, macOS from 49152). An outgoing connection could take a port
 * from that range while its server is down, also the connection of a check: the kernel can connect it to itself.
 */
const [lowest, highest] = [15_000, 32_000];
const given = new Set<number>();

/** A TCP port of 127.0.0.1 without a listener a moment ago; never the same twice in this process. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(lowest, highest);
    if (given.has(port)) continue;
    given.add(port);
    if (!(await isPortTaken(port))) return port;
  }
}

/** Returns whether a process listens there. It also connects, because macOS allows binding beside a wildcard listener. */
export async function isPortTaken(port: number, host = '127.0.0.1'): Promise<boolean> {
  return (
    (await answers(port, host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host)) ||
    cannotListen(port, host)
  );
}

function answers(port: number, host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host });
    socket.setTimeout(1000, () => socket.destroy());
    socket.once('connect', () => {
      resolve(true);
      socket.destroy();
    });
    socket.once('error', () => resolve(false));
    socket.once('close', () => resolve(false));
  });
}

function cannotListen(port: number, host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(true));
    server.listen(port, host, () => server.close(() => resolve(false)));
  });
}
