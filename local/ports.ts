import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { connect, createServer } from 'node:net';

/**
 * Below the range of outgoing connections (Linux from 32768, macOS from 49152). An outgoing connection could take a port
 * from that range while its server is down, even the connection of a check: the kernel can connect a socket to itself.
 */
const [lowest, highest] = [15_000, 32_000];
/** Processes that are started together have neighbouring ids: each has its own quarter of the ports. */
const quarters = 4;
const given = new Set<number>();

/**
 * Returns a TCP port of 127.0.0.1 without a listener a moment ago; never the same twice in this process, nor in one that was
 * started with it: a client of a server that has ended still tries its port.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(lowest / quarters, highest / quarters) * quarters + (process.pid % quarters);
    if (given.has(port)) continue;
    given.add(port);
    if (!(await isPortTaken(port))) return port;
  }
}

/** Returns whether a process listens there. Connects first, because macOS allows binding beside a wildcard listener. */
async function isPortTaken(port: number, host = '127.0.0.1'): Promise<boolean> {
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
    server.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code === 'EADDRINUSE'));
    server.listen(port, host, () => server.close(() => resolve(false)));
  });
}

/**
 * Claims a port for the life of this process: a server listens only seconds after its port was chosen. Of several processes that
 * choose at the same moment one can bind the UDP port of that number, which no server of ours uses.
 */
function claim(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket('udp4').unref();
    socket.once('error', () => socket.close(() => resolve(false)));
    socket.bind({ port, address: '127.0.0.1', exclusive: true }, () => resolve(true));
  });
}

/** Assigns ports: the requested port if it is free, else another port, and says so. */
export class PortPlan {
  readonly #given = new Set<number>();

  constructor(private readonly say: (line: string) => void) {}

  /** @throws Error if the port is taken */
  async exactly(variable: string, port: number, host: string): Promise<number> {
    if ((await isPortTaken(port, host)) || !(await claim(port))) {
      throw new Error(
        `port ${port} is taken: stop the process that listens there, or set ${variable} to another port`,
      );
    }
    this.#given.add(port);
    return port;
  }

  async preferably(variable: string, usual: number): Promise<number> {
    const wanted = readPort(variable) ?? usual;
    const taken = this.#given.has(wanted) || (await isPortTaken(wanted)) || !(await claim(wanted));
    const port = taken ? await this.#another() : wanted;
    if (taken) this.say(`port ${wanted} is taken, ${variable} is ${port} this time`);
    this.#given.add(port);
    return port;
  }

  all(): number[] {
    return [...this.#given];
  }

  async #another(): Promise<number> {
    const port = await freePort();
    return this.#given.has(port) || !(await claim(port)) ? this.#another() : port;
  }
}

function readPort(variable: string): number | undefined {
  const text = process.env[variable];
  if (!text) return undefined;
  const port = Number(text);
  if (!Number.isInteger(port) || port < 1 || port > 65_535)
    throw new Error(`${variable} must be a port, 1 to 65535`);
  return port;
}
