import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type Koa from 'koa';
import type { Config } from '../config.js';

export interface ListeningServer {
  port: number;
  /** Takes nothing new, lets every request under way end and closes each connection after its answer. */
  close(): Promise<void>;
}

const headersTimeoutMs = 10_000;
const requestTimeoutMs = 30_000;
/** Above the 60 s that load balancers usually keep a connection, so that they are the ones to close it. */
const keepAliveTimeoutMs = 65_000;

/** @throws when the port is taken */
export async function listen(config: Pick<Config, 'HOST' | 'PORT'>, app: Koa): Promise<ListeningServer> {
  const handle = app.callback();
  const underWay = new Set<ServerResponse>();
  let closing = false;
  const server = createServer(
    {
      headersTimeout: headersTimeoutMs,
      requestTimeout: requestTimeoutMs,
      keepAliveTimeout: keepAliveTimeoutMs,
    },
    (req, res) => {
      if (closing) res.setHeader('Connection', 'close');
      underWay.add(res);
      res.once('close', () => underWay.delete(res));
      void handle(req, res);
    },
  );
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(config.PORT, config.HOST, () => {
      server.off('error', reject);
      resolve();
    });
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve, reject) => {
        closing = true;
        for (const res of underWay) if (!res.headersSent) res.setHeader('Connection', 'close');
        server.close((err) => (err ? reject(err) : resolve()));
        server.closeIdleConnections();
      }),
  };
}
