import { createServer, type Server } from 'node:http';

/** The clients' endpoint: remembers every POST that reached it whole, and can go away with all its connections. */
export interface Receiver {
  url: string;
  /** Times of arrival (ms) by `webhook-id`. */
  arrivals: Map<string, number[]>;
  open(): Promise<void>;
  /** Answers under way are cut off. */
  breakOff(): Promise<void>;
}

/** Answers take this long at most, so that a fault finds some under way. */
const slowestAnswerMs = 30;

export function createReceiver(port: number): Receiver {
  const arrivals = new Map<string, number[]>();
  let server: Server | undefined;
  return {
    url: `http://127.0.0.1:${port}`,
    arrivals,
    async open() {
      const opened = createServer({ keepAliveTimeout: 60_000 }, (req, res) => {
        req.resume();
        req.on('end', () => {
          const id = String(req.headers['webhook-id']);
          arrivals.set(id, [...(arrivals.get(id) ?? []), Date.now()]);
          setTimeout(() => res.writeHead(204).end(), Math.random() * slowestAnswerMs);
        });
      });
      server = opened;
      await new Promise<void>((resolve, reject) => {
        opened.once('error', reject);
        opened.listen(port, '127.0.0.1', resolve);
      });
    },
    async breakOff() {
      const closing = server;
      server = undefined;
      if (closing === undefined) return;
      closing.closeAllConnections();
      await new Promise((resolve) => closing.close(resolve));
    },
  };
}
