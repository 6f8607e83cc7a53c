import { readFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import type { TargetPolicy } from '../../src/outgoing/address.js';

/** Self-signed, for `receiver.example` and 127.0.0.1, good for a hundred years. For tests only. */
export const certificate = readFileSync(join(import.meta.dirname, 'certificate/certificate.pem'), 'utf8');
const key = readFileSync(join(import.meta.dirname, 'certificate/key.pem'), 'utf8');
/** For the same names, good until 2021. */
export const expired = {
  cert: readFileSync(join(import.meta.dirname, 'certificate/expired.pem'), 'utf8'),
  key: readFileSync(join(import.meta.dirname, 'certificate/expired-key.pem'), 'utf8'),
};

/** Loopback receivers over http and https. */
export const loopbackPolicy: TargetPolicy = { allowHttp: true, allowedCidrs: ['127.0.0.0/8'], ownPorts: [] };

export interface RawReceiver {
  port: number;
  url: string;
  /** How many connections were accepted so far. */
  accepted(): number;
  /** How many of them are open. */
  open(): number;
  /** Everything that was received, over all connections, without the TLS. */
  received(): string;
  /** Stops listening and cuts what is open. */
  close(): Promise<void>;
}

/**
 * A receiver on 127.0.0.1 that answers with any bytes that a test gives.
 * @param answer called once for each complete request (they all have a short body)
 * @param onConnection called for each accepted connection
 */
export async function startRawReceiver(opts: {
  tls?: boolean | { key: string; cert: string };
  answer?: (socket: Socket, count: number) => unknown;
  onConnection?: (socket: Socket) => void;
}): Promise<RawReceiver> {
  const sockets = new Set<Socket>();
  let accepted = 0;
  let requests = 0;
  let received = '';
  const serve = (socket: Socket): void => {
    let unanswered = '';
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      received += chunk;
      unanswered += chunk;
      // Every request of these tests ends with the closing brace of its JSON.
      while (unanswered.includes('}')) {
        unanswered = unanswered.slice(unanswered.indexOf('}') + 1);
        opts.answer?.(socket, ++requests);
      }
    });
  };
  const server: Server = opts.tls
    ? createTlsServer(opts.tls === true ? { key, cert: certificate } : opts.tls, serve).on(
        'tlsClientError',
        () => undefined,
      )
    : createServer(serve);
  server.on('connection', (socket: Socket) => {
    accepted++;
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
    opts.onConnection?.(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `${opts.tls ? 'https' : 'http'}://127.0.0.1:${port}/hook?key=hidden-in-query`,
    accepted: () => accepted,
    open: () => sockets.size,
    received: () => received,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

/** Waits for a fact; mocha's timeout ends a test whose fact never comes. */
export async function until(fact: () => boolean): Promise<void> {
  while (!fact()) await new Promise((resolve) => setTimeout(resolve, 5));
}
