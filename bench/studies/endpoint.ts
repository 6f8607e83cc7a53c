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

/** An endpoint in the study's own process, whose behaviour the study changes at run time. */
export interface Endpoint {
  url: string;
  arrivals: Arrival[];
  /** `reset`: connections are reset. */
  answer: { status: number; afterMs: number } | 'reset';
  /** The most POSTs without an answer at one time. */
  mostInFlight: number;
  close(): Promise<void>;
}

export async function startEndpoint(): Promise<Endpoint> {
  let inFlight = 0;
  const end = (res: ServerResponse, status: number) => {
    inFlight--;
    res.writeHead(status).end();
  };
  const server = createServer({ keepAliveTimeout: 120_000 }, (req, res) => {
    if (endpoint.answer === 'reset') return void req.socket.destroy();
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
  server.on('connection', (socket) => {
    if (endpoint.answer === 'reset') socket.resetAndDestroy();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
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
