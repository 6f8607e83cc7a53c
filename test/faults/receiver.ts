import { createServer, type Server } from 'node:http';
import { portOf } from '../receiver.js';

/** Answers take this long at most, so that a fault finds some under way. */
const slowestAnswerMs = 30;

export type Receiver = ReturnType<typeof createReceiver>;

/** The clients' endpoint: remembers every POST that reached it whole, and can go away with all its connections. */
export function createReceiver(port: number) {
  const arrivals = new Map<string, number[]>();
  const present = new Map<string, number>();
  let server: Server | undefined;
  const receiver = {
    url: `http://127.0.0.1:${port}`,
    /** Times of arrival (ms) by `webhook-id`. */
    arrivals,
    /** The most POSTs of one client that were here at the same time. */
    mostInFlight: 0,
    async open(): Promise<void> {
      const opened = createServer({ keepAliveTimeout: 60_000 }, (req, res) => {
        const client = req.url ?? '';
        const here = (present.get(client) ?? 0) + 1;
        present.set(client, here);
        receiver.mostInFlight = Math.max(receiver.mostInFlight, here);
        res.once('close', () => present.set(client, (present.get(client) ?? 1) - 1));
        req.resume();
        req.on('end', () => {
          const id = String(req.headers['webhook-id']);
          arrivals.set(id, [...(arrivals.get(id) ?? []), Date.now()]);
          setTimeout(() => res.writeHead(204).end(), Math.random() * slowestAnswerMs);
        });
      });
      server = opened;
      await portOf(opened, port);
    },
    /** Answers under way are cut off. */
    async breakOff(): Promise<void> {
      const closing = server;
      server = undefined;
      if (closing === undefined) return;
      closing.closeAllConnections();
      await new Promise((resolve) => closing.close(resolve));
    },
  };
  return receiver;
}
