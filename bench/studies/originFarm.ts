import { createServer as createHttpServer } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import { freePort } from '../../local/ports.js';
import { monotonicMs } from '../monotonicMs.js';

/** Many endpoints in this process, each with its own origin: one address of 127.1.0.0/16 each, on one port. */
export interface OriginFarm {
  urls: string[];
  /** First arrivals by the index of the origin, `monotonicMs`. Readers empty it. */
  firstArrival: Map<number, number>;
  arrivals: number;
  /** Sets which origins answer; the others keep the connection open. */
  answers: (origin: number) => boolean;
  /** Returns the open connections to all of them. */
  connections(): number;
  close(): Promise<void>;
}

export async function startOriginFarm(count: number): Promise<OriginFarm> {
  const port = await freePort();
  const sockets = new Set<Socket>();
  const http = createHttpServer({ keepAliveTimeout: 120_000 }, (req, res) => {
    const origin = Number(req.url?.slice(1));
    farm.arrivals++;
    if (!farm.firstArrival.has(origin)) farm.firstArrival.set(origin, monotonicMs());
    req.resume();
    if (farm.answers(origin)) req.on('end', () => res.writeHead(204).end());
  });
  const listeners: Server[] = [];
  for (let i = 0; i < count; i++) {
    const listener = createServer((socket) => {
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
      http.emit('connection', socket);
    });
    await new Promise<void>((resolve, reject) => {
      listener.once('error', reject);
      listener.listen(port, addressOf(i), resolve);
    });
    listeners.push(listener);
  }
  const farm: OriginFarm = {
    urls: Array.from({ length: count }, (_, i) => `http://${addressOf(i)}:${port}/${i}`),
    firstArrival: new Map(),
    arrivals: 0,
    answers: () => true,
    connections: () => sockets.size,
    close: async () => {
      for (const listener of listeners) listener.close();
      for (const socket of sockets) socket.destroy();
    },
  };
  return farm;
}

function addressOf(i: number): string {
  return `127.1.${i >> 8}.${i & 255}`;
}
