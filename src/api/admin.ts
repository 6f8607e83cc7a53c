import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Config } from '../config.js';
import type { Metrics } from '../metrics.js';
import type { Readiness } from './readiness.js';
import type { ListeningServer } from './server.js';

/** Opens the operators' port of a process, on ADMIN_HOST: GET /metrics, /healthz, /readyz. */
export async function listenAdmin(
  config: Pick<Config, 'ADMIN_HOST' | 'ADMIN_PORT'>,
  metrics: Metrics,
  readiness: () => Promise<Readiness>,
): Promise<Omit<ListeningServer, 'drain'>> {
  const server = createServer((req, res) => {
    const answer = async (): Promise<void> => {
      const path = req.url?.split('?')[0];
      if (req.method !== 'GET' && req.method !== 'HEAD') {
        res.writeHead(405, { Allow: 'GET, HEAD' }).end();
      } else if (path === '/metrics') {
        res
          .writeHead(200, { 'Content-Type': metrics.registry.contentType })
          .end(await metrics.registry.metrics());
      } else if (path === '/healthz') {
        res.writeHead(200, json).end('{"status":"ok"}');
      } else if (path === '/readyz') {
        const found = await readiness();
        res.writeHead(found.status === 'ready' ? 200 : 503, json).end(JSON.stringify(found));
      } else {
        res.writeHead(404).end();
      }
    };
    answer().catch(() => res.headersSent || res.writeHead(500).end());
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(config.ADMIN_PORT, config.ADMIN_HOST, () => {
      server.off('error', reject);
      resolve();
    });
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const json = { 'Content-Type': 'application/json' };
