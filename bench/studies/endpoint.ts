import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { monotonicMs } from '../monotonicMs.js';

export interface Arrival {
  /** `monotonicMs` */
  at: number;
  notificationId: string;
  platformId: string;
  status: number;
}

/** An endpoint whose behaviour a study changes while it runs, in the study's own process. */
export interface Endpoint {
  url: string;
  arrivals: Arrival[];
  answer: { status: number; afterMs: number };
  /** POSTs without an answer at one time, at most. */
  mostInFlight: number;
  close(): Promise<void>;
}

/** @param port a free one by default */
export async function startEndpoint(port = 0): Promise<Endpoint> {
  let inFlight = 0;
  const end = (res: ServerResponse, status: number) => {
    inFlight--;
    res.writeHead(status).end();
  };
  const server = createServer({ keepAliveTimeout: 120_000 }, (req, res) => {
    const at = monotonicMs();
    endpoint.mostInFlight = Math.max(endpoint.mostInFlight, ++inFlight);
    const { status, afterMs } = endpoint.answer;
    let body = '';
    req.setEncoding('utf8');
    req.on('data', (chunk: string) => {
      body += chunk;
    });
    req.on('end', () => {
      endpoint.arrivals.push({
        at,
        notificationId: String(req.headers['webhook-id']),
        platformId: (JSON.parse(body) as { platform_id: string }).platform_id,
        status,
      });
      if (afterMs > 0) setTimeout(end, afterMs, res, status);
      else end(res, status);
    });
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const endpoint: Endpoint = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    arrivals: [],
    answer: { status: 204, afterMs: 0 },
    mostInFlight: 0,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return endpoint;
}
