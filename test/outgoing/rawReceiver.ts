import { readFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { createServer as createTlsServer, type TlsOptions } from 'node:tls';
import type { TargetPolicy } from '../../src/outgoing/address.js';
import { createSender, type SenderSettings } from '../../src/outgoing/post.js';
import { startDnsServer } from './dnsServer.js';

/** Self-signed, for `receiver.example` and 127.0.0.1, good for a hundred years. For tests only. */
export const certificate = readFileSync(join(import.meta.dirname, 'certificate/certificate.pem'), 'utf8');
const key = readFileSync(join(import.meta.dirname, 'certificate/key.pem'), 'utf8');

/** For a server of a test's own. */
export const ownKey = { key, cert: certificate };

/** Loopback receivers over http and https. */
export const loopbackPolicy: TargetPolicy = { allowHttp: true, allowedCidrs: ['127.0.0.0/8'], ownPorts: [] };

/**
 * A receiver on 127.0.0.1 that answers with any bytes that a test gives.
 * @param answer called once for each complete request (they all have a short body)
 * @param onConnection called for each accepted connection; without `answer` all that it does is the test's
 */
export async function startRawReceiver(opts: {
  /** With the certificate for tests, or another. */
  tls?: boolean | TlsOptions;
  answer?: (socket: Socket, count: number) => unknown;
  onConnection?: (socket: Socket) => void;
  /** 127.0.0.1, on a free port. */
  host?: string;
  port?: number;
}) {
  const sockets = new Set<Socket>();
  let accepted = 0;
  let requests = 0;
  let received = '';
  const serve = (socket: Socket): void => {
    let unanswered = '';
    if (opts.onConnection && !opts.answer) return;
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
    ? createTlsServer(opts.tls === true ? ownKey : opts.tls, serve).on('tlsClientError', () => undefined)
    : createServer(serve);
  server.on('connection', (socket: Socket) => {
    accepted++;
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
    opts.onConnection?.(socket);
  });
  await new Promise<void>((resolve) => server.listen(opts.port ?? 0, opts.host ?? '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `${opts.tls ? 'https' : 'http'}://127.0.0.1:${port}/hook?key=hidden-in-query`,
    accepted: () => accepted,
    open: () => sockets.size,
    /** Everything that was received, over all connections, without the TLS. */
    received: () => received,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

/** Leads each of two sockets into the other. */
export function leadBothWays(inside: Socket, outside: Socket): void {
  inside.on('error', () => outside.destroy()).pipe(outside);
  outside.on('error', () => inside.destroy()).pipe(inside);
}

/** Has a connection served by the server behind, after these bytes of it; each ends with the other. */
export function pass(socket: Socket, port: number, first: Buffer | string = ''): void {
  const behind = connect(port, '127.0.0.1');
  behind.write(first);
  leadBothWays(socket, behind);
  behind.on('close', () => socket.destroy());
  socket.on('close', () => behind.destroy());
}

export const noContent = 'HTTP/1.1 204 No Content\r\n\r\n';

export const requestTo = (url: string, client = 'SITE0042') => ({
  url,
  client,
  headers: { 'webhook-id': 'n-1' },
  body: '{"event":"test"}',
});

/**
 * Opens what a test of a suite needs; it is closed after the test, a receiver before the sender that waits for its body.
 * @param ends `after`: closed after the suite
 */
export function useNetwork(ends: typeof after = afterEach) {
  const open: { close(): Promise<unknown> }[] = [];
  ends(async () => {
    for (const one of open.splice(0)) await one.close();
  });
  function opened<T extends { close(): Promise<unknown> }>(one: T): T {
    open.push(one);
    return one;
  }
  const start = async (opts: Parameters<typeof startRawReceiver>[0]) => opened(await startRawReceiver(opts));
  return {
    start,
    startQuick: () => start({ answer: (s) => s.write(noContent) }),
    startDns: async (...how: Parameters<typeof startDnsServer>) => opened(await startDnsServer(...how)),
    sending: (settings: Partial<SenderSettings> = {}) =>
      opened(createSender({ policy: loopbackPolicy, timeoutMs: 20_000, ca: certificate, ...settings })),
  };
}

/** Waits for a fact; mocha's timeout ends a test whose fact never comes. */
export async function until(fact: () => boolean): Promise<void> {
  while (!fact()) await new Promise((resolve) => setTimeout(resolve, 5));
}
