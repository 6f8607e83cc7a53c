/** A receiver of notifications, on a free port of this machine. */
import { EventEmitter, once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Received {
  atMs: number;
  headers: IncomingHttpHeaders;
  body: string;
}

export interface DemoReceiver {
  url: string;
  /** Returns the first notification. @throws after `timeoutMs` */
  next(timeoutMs: number): Promise<Received>;
  close(): Promise<void>;
}

export async function startDemoReceiver(): Promise<DemoReceiver> {
  const arrived: Received[] = [];
  const told = new EventEmitter();
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const { headers } = request;
    arrived.push({ atMs: Date.now(), headers, body: Buffer.concat(parts).toString('utf8') });
    response.writeHead(204).end();
    told.emit('arrived');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/notifications`,
    async next(timeoutMs) {
      if (arrived.length === 0) await once(told, 'arrived', { signal: AbortSignal.timeout(timeoutMs) });
      return arrived[0] as Received;
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
