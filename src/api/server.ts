import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type Koa from 'koa';
import type { Config } from '../config.js';
import { refuseBytes } from './steps/body/refuseBytes.js';

export interface ListeningServer {
  port: number;
  /** From now on every answer asks for its connection to be closed; new ones are still taken. */
  drain(): void;
  /** Takes nothing new, lets every request under way end and closes each connection after its answer. */
  close(): Promise<void>;
}

/** How long a caller may take and how much it may hold; docs/reference/limits.md says it to people. */
export const connectionLimits = {
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  /** Both are looked at this often; Node's own 30 s would let half a request live for 40. */
  checkEveryMs: 2_000,
  /** A caller that neither sends nor reads: else one that never reads its answers would stay for ever. */
  silenceMs: 60_000,
  /** Above the 60 s that load balancers usually keep a connection, so that they are the ones to close it. */
  keepAliveTimeoutMs: 65_000,
  /** A URL of 2,048 characters takes up to 18 KiB in a query, percent-encoded. */
  headerBytes: 32 * 1024,
  /** Below the usual limit of open files, so that Redis, Temporal and the notifications keep theirs. */
  connections: 16_000,
};

/** @throws when the port is taken */
export async function listen(
  config: Pick<Config, 'HOST' | 'PORT'>,
  app: Koa,
  limits: typeof connectionLimits = connectionLimits,
): Promise<ListeningServer> {
  const handle = app.callback();
  // By connection, not a set of answers: V8 chains the tables that a set outgrows as answers come and go, and a dead one
  // among its old objects keeps all that follow, each with the requests of its time, until the next full collection.
  const underWay = new Map<Socket, ServerResponse | undefined>();
  let draining = false;
  const answer: RequestListener = (req, res) => {
    if (draining) res.setHeader('Connection', 'close');
    const { socket } = req;
    underWay.set(socket, res);
    res.on('close', () => {
      if (underWay.get(socket) === res) underWay.set(socket, undefined);
    });
    void handle(req, res);
  };
  const server = createServer(
    {
      headersTimeout: limits.headersTimeoutMs,
      requestTimeout: limits.requestTimeoutMs,
      connectionsCheckingInterval: limits.checkEveryMs,
      keepAliveTimeout: limits.keepAliveTimeoutMs,
      maxHeaderSize: limits.headerBytes,
      // checkHead.ts refuses it, in the shape of every other error.
      requireHostHeader: false,
    },
    answer,
  );
  server.on('checkExpectation', answer);
  server.on('clientError', (err, socket) => refuseBytes(err, socket, underWay.get(socket as Socket)));
  server.on('connection', (socket) => {
    socket.once('close', () => underWay.delete(socket));
  });
  server.setTimeout(limits.silenceMs);
  server.maxConnections = limits.connections;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(config.PORT, config.HOST, () => {
      server.off('error', reject);
      resolve();
    });
  });
  function drain(): void {
    draining = true;
    for (const res of underWay.values()) if (res?.headersSent === false) res.setHeader('Connection', 'close');
  }

  return {
    port: (server.address() as AddressInfo).port,
    drain,
    close: () =>
      new Promise((resolve, reject) => {
        drain();
        server.close((err) => (err ? reject(err) : resolve()));
        server.closeIdleConnections();
      }),
  };
}
