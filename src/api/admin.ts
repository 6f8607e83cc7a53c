import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Config } from '../config.js';
import type { Metrics } from '../metrics.js';
import { withTimeout } from '../promises.js';
import type { ListeningServer } from './server.js';
import type { Readiness } from './step.js';

/**
 * Opens the operators' port of a process, on ADMIN_HOST: GET /metrics, /healthz, /readyz.
 * @param sdkMetrics text that follows our own
 */
export async function listenAdmin(
  config: Pick<Config, 'ADMIN_HOST' | 'ADMIN_PORT'>,
  metrics: Metrics,
  readiness: () => Promise<Readiness>,
  sdkMetrics: () => Promise<string> = () => Promise.resolve(''),
): Promise<Omit<ListeningServer, 'drain'>> {
  const server = createServer((req, res) => {
    const answer = async (): Promise<void> => {
      const path = req.url?.split('?')[0];
      if (req.method !== 'GET' && req.method !== 'HEAD') {
        res.writeHead(405, { Allow: 'GET, HEAD' }).end();
      } else if (path === '/metrics') {
        const texts = await Promise.all([metrics.registry.metrics(), sdkMetrics()]);
        res.writeHead(200, { 'Content-Type': metrics.registry.contentType }).end(texts.join('\n'));
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
  server.listen(config.ADMIN_PORT, config.ADMIN_HOST);
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

const json = { 'Content-Type': 'application/json' };

/** How long one check serves all callers, and the longest that it may take: frequent callers cost nothing more. */
export const lookEveryMs = 1000;

/**
 * Checks whether this process can do its work: Redis answers, and the process was not told to stop. Temporal may be
 * unavailable: accepted events are owed in Redis, and all processes share the same Temporal.
 * @param ask asks each server; a call ends soon after `lookEveryMs`
 */
export function createReadiness(ask: {
  redis: () => Promise<unknown>;
  temporal: () => Promise<unknown>;
  ending: () => boolean;
}): () => Promise<Readiness> {
  const lookAtRedis = sharedLook(ask.redis);
  const lookAtTemporal = sharedLook(ask.temporal);
  return async () => {
    const [redis, temporal] = await Promise.all([lookAtRedis(), lookAtTemporal()]);
    return { status: redis && !ask.ending() ? 'ready' : 'not ready', redis, temporal };
  };
}

/** Checks whether a server answers. While a call is under way no other is made. */
function sharedLook(ask: () => Promise<unknown>): () => Promise<boolean> {
  let nextAtMs = 0;
  let answer = Promise.resolve(false);
  return () => {
    const nowMs = performance.now();
    if (nowMs >= nextAtMs) {
      nextAtMs = Number.POSITIVE_INFINITY;
      const asked = ask().then(
        () => true,
        () => false,
      );
      answer = withTimeout(asked, lookEveryMs, () => false);
      void asked.then(() => {
        nextAtMs = nowMs + lookEveryMs;
      });
    }
    return answer;
  };
}
