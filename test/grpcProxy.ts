/** Stands before the Temporal server of the tests, and answers some calls itself as another server would. */
import { readFileSync } from 'node:fs';
import {
  type ClientHttp2Session,
  connect,
  createSecureServer,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import { join } from 'node:path';
import { portOf } from './receiver.js';

/** gRPC's numbers. */
export const status = {
  ok: 0,
  invalidArgument: 3,
  permissionDenied: 7,
  resourceExhausted: 8,
  unimplemented: 12,
  unavailable: 14,
};

/** @param tls with the certificate of test/temporal/certificate */
export async function startGrpcProxy(target: string, tls = false) {
  const folder = join(import.meta.dirname, 'temporal/certificate');
  const server: Http2Server = tls
    ? createSecureServer({
        key: readFileSync(join(folder, 'key.pem')),
        cert: readFileSync(join(folder, 'certificate.pem')),
      })
    : createServer();
  const underWay = new Map<ServerHttp2Stream, string>();
  const sessions = new Set<{ destroy(): void }>();
  let outside: ClientHttp2Session | undefined;
  /** The server ends each connection after 5 minutes. */
  const toServer = (): ClientHttp2Session => {
    if (outside !== undefined && !outside.closed && !outside.destroyed) return outside;
    const opened = connect(`http://${target}`);
    sessions.add(opened);
    opened
      .on('error', () => undefined)
      .on('goaway', () => {
        if (outside === opened) outside = undefined;
      });
    outside = opened;
    return opened;
  };
  server.on('session', (session) => sessions.add(session));
  server.on('sessionError', () => undefined);

  const proxy = {
    address: '',
    /** Of every call so far, by the method's short name. */
    calls: [] as { method: string; headers: IncomingHttpHeaders; at: number }[],
    /** The gRPC status with which a call is answered instead of by the server, by full path; 0 lets it through. */
    answer: (_path: string): number => status.ok,
    /** These calls reach the server so much later, by the method's short name. */
    delaysMs: {} as Record<string, number>,
    /** Refuses these calls from now on, also those under way, such as a poll; none lets all through. */
    refuse(code: number, ...methods: string[]): void {
      proxy.answer = (path) => (methods.includes(methodIn(path)) ? code : status.ok);
      for (const [inside, path] of underWay)
        if (proxy.answer(path) !== status.ok && !inside.headersSent) {
          underWay.delete(inside);
          refuse(inside, code);
        }
    },
    async close(): Promise<void> {
      for (const session of sessions) session.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  server.on('stream', (inside, headers) => {
    inside.on('error', () => undefined);
    const path = headers[':path'] ?? '';
    proxy.calls.push({ method: methodIn(path), headers, at: Date.now() });
    const code = proxy.answer(path);
    underWay.set(inside, path);
    inside.on('close', () => underWay.delete(inside));
    if (code !== status.ok) return refuse(inside, code);
    const pass = () => forward(toServer(), inside, headers, () => underWay.has(inside));
    const delayMs = proxy.delaysMs[methodIn(path)];
    if (delayMs === undefined) pass();
    else setTimeout(pass, delayMs);
  });
  proxy.address = `127.0.0.1:${await portOf(server)}`;
  return proxy;
}

const methodIn = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

function refuse(inside: ServerHttp2Stream, code: number): void {
  inside.resume();
  inside.respond(
    {
      ':status': 200,
      'content-type': 'application/grpc',
      'grpc-status': String(code),
      'grpc-message': 'refused by the test',
    },
    { endStream: true },
  );
}

/** @param isWanted false once the call was answered otherwise */
function forward(
  outside: ClientHttp2Session,
  inside: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  isWanted: () => boolean,
): void {
  const call = outside.request(headers);
  inside.on('close', () => call.destroy());
  inside.pipe(call);
  inside.on('aborted', () => call.destroy());
  let trailers: IncomingHttpHeaders = {};
  call.on('response', ({ ':status': code, ...rest }, flags) => {
    if (!isWanted()) return call.destroy();
    const isLast = (flags & 1) === 1;
    inside.respond({ ':status': code, ...rest }, { endStream: isLast, waitForTrailers: !isLast });
  });
  call.on('trailers', (sent) => {
    trailers = sent;
  });
  inside.on('wantTrailers', () => inside.sendTrailers(trailers));
  call.on('data', (data) => inside.write(data));
  call.on('end', () => inside.end());
  call.on('error', () => inside.destroy());
}
