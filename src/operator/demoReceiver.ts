/** A receiver of notifications, on a free port of this machine. */
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Received {
  atMs: number;
  headers: IncomingHttpHeaders;
  body: string;
}

export interface DemoReceiver {
  url: string;
  /** Returns the next notification, or one that has already arrived. @throws after `timeoutMs` */
  next(timeoutMs: number): Promise<Received>;
  close(): Promise<void>;
}

export async function startDemoReceiver(): Promise<DemoReceiver> {
  const arrived: Received[] = [];
  let tell = () => {};
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      arrived.push({
        atMs: Date.now(),
        headers: request.headers,
        body: Buffer.concat(parts).toString('utf8'),
      });
      response.writeHead(204).end();
      tell();
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/notifications`,
    async next(timeoutMs) {
      if (arrived.length === 0) await untilTold(timeoutMs);
      const received = arrived.shift();
      if (received === undefined) throw new Error('no notification arrived in time');
      return received;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };

  function untilTold(timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      tell = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
