import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type RequestListener, type ServerResponse, STATUS_CODES } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type Koa from 'koa';
import { type Config, ConfigError } from '../config.js';
import { maxConnections } from '../openFiles.js';
import { ApiError, presentProblem } from './apiError.js';
import { dropRest, lateEvent } from './body.js';
import type { ErrorCode } from './errors.js';

export type ListeningServer = Awaited<ReturnType<typeof listen>>;

/** The limits on a caller's time and resources, documented in docs/reference/limits.md. */
export const connectionLimits = {
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  /** Both are checked this often; with Node's own 30 s an incomplete request would live for 40 s. */
  checkEveryMs: 2_000,
  /** The longest silence of a caller: one that never reads its answers would otherwise hold its connection for ever. */
  silenceMs: 60_000,
  /** Once the server closes: for the rest of a head, and for that of a body or of an answer. */
  lastHeadMs: 1_000,
  lastRestMs: 10_000,
  /** For sending an answer, once it is made, to a caller that reads slowly. */
  sendMs: 60_000,
  /** More than the 60 s for which load balancers usually keep a connection, so that they close it. */
  keepAliveTimeoutMs: 65_000,
  /** A URL of 2,048 bytes, percent-encoded, takes up to 6 KiB in a query, percent-encoded again. */
  headerBytes: 32 * 1024,
  /** Requests of a connection that wait for the answer to an earlier one. A packet of them has thousands. */
  pipelined: 16,
  connections: maxConnections,
};

/** @param onFull called when connections are closed because of their number, once in a minute. @throws ConfigError if it cannot listen there */
export async function listen(
  config: Pick<Config, 'HOST' | 'PORT'>,
  app: Koa,
  limits: typeof connectionLimits = connectionLimits,
  onFull = () => {},
) {
  let handle = app.callback();
  // By connection, not a set of answers: V8 chains the tables that a set outgrows as answers come and go. A dead table
  // among its old objects keeps all later ones, each with the requests of its time, until the next full collection.
  const underWay = new Map<Socket, ServerResponse | undefined>();
  // Requests that came before the answer to an earlier one of their connection: at once they would take a line each (pace.ts).
  const waiting = new Map<Socket, Parameters<RequestListener>[]>();
  let draining = false;
  const answer: RequestListener = (req, res) => {
    const { socket } = req;
    if (underWay.get(socket) === undefined) return begin(req, res);
    const queue = waiting.get(socket) ?? [];
    waiting.set(socket, queue);
    if (queue.length < limits.pipelined) queue.push([req, res]);
    else {
      // Or Node would make an object of each of the thousands of requests in a packet: this ends its parsing as an upgrade does.
      Object.assign((socket as { parser?: object }).parser ?? {}, { onIncoming: () => 2 });
      refuseNext({ code: 'PIPELINED' }, socket);
    }
  };
  /** Refuses the bytes behind the requests that came whole: these are carried out, and the caller learns first what became of them. */
  const refuseNext = (err: ParserError, socket: Duplex) => {
    const answer = waiting.get(socket as Socket)?.at(-1)?.[1] ?? underWay.get(socket as Socket);
    const isLate = err.code === 'ERR_HTTP_REQUEST_TIMEOUT';
    if (isLate && answer?.headersSent === false && answer.req.emit(lateEvent)) return;
    // Programs that connect before they have anything to ask would take a 408 for the answer to their first request.
    if (isLate && (socket as Socket).bytesRead === 0) return socket.destroy();
    if (answer?.req.complete !== true) return refuseBytes(err, socket, answer);
    socket.pause();
    answer.once('close', () => socket.writable && refuseBytes(err, socket));
  };
  const begin: RequestListener = (req, res) => {
    if (draining) res.setHeader('Connection', 'close');
    const { socket } = req;
    underWay.set(socket, res);
    res.on('close', () => {
      if (underWay.get(socket) !== res) return;
      underWay.set(socket, undefined);
      const next = waiting.get(socket)?.shift();
      if (next !== undefined && socket.writable) begin(...next);
    });
    void handle(req, res).then(() => endUnlessSent(res, limits.sendMs));
  };
  const server = createServer(
    {
      headersTimeout: limits.headersTimeoutMs,
      requestTimeout: limits.requestTimeoutMs,
      connectionsCheckingInterval: limits.checkEveryMs,
      keepAliveTimeout: limits.keepAliveTimeoutMs,
      maxHeaderSize: limits.headerBytes,
      // app.ts refuses a request without Host, in the form of every other error.
      requireHostHeader: false,
    },
    answer,
  );
  // A caller that has sent all of its requests may say so before it is answered. Without `maxHeadersCount`, whose bytes are bounded, Node
  // leaves out headers after 2,000 without a word.
  Object.assign(server, { httpAllowHalfOpen: true, maxHeadersCount: 0 });
  server.on('checkExpectation', answer);
  server.on('checkContinue', (req, res) => {
    // A call asks for the body once it reads it: a refusal by the head alone comes before (RFC 9110, section 10.1.1).
    res.setHeader('Connection', 'close');
    req.once('resume', () => {
      if (res.headersSent) return;
      if (res.shouldKeepAlive && !draining) res.setHeader('Connection', 'keep-alive');
      res.writeContinue();
    });
    answer(req, res);
  });
  server.on('clientError', refuseNext);
  server.on('connect', (_, socket) => {
    // Node no longer listens to it.
    socket.on('error', () => socket.destroy());
    refuseBytes({ code: 'CONNECT' }, socket);
  });
  server.on('connection', (socket) => {
    underWay.set(socket, undefined);
    socket.once('close', () => {
      underWay.delete(socket);
      waiting.delete(socket);
    });
  });
  server.setTimeout(limits.silenceMs);
  server.maxConnections = limits.connections;
  let toldAtMs = Number.NEGATIVE_INFINITY;
  server.on('drop', () => {
    if (performance.now() < toldAtMs + 60_000) return;
    toldAtMs = performance.now();
    onFull();
  });
  server.listen(config.PORT, config.HOST);
  await once(server, 'listening').catch(({ code }: NodeJS.ErrnoException) => {
    const where = `cannot listen on ${config.HOST}, port ${config.PORT}`;
    throw new ConfigError(
      `${where}: ${unheard[code ?? ''] ?? code}. HOST, PORT, ADMIN_HOST and ADMIN_PORT say where.`,
    );
  });

  /** Makes every further answer ask to close its connection; new connections are still accepted. */
  function drain(): void {
    draining = true;
    for (const res of underWay.values()) if (res?.headersSent === false) res.setHeader('Connection', 'close');
  }

  /** Ends connections without a whole head, and then those whose caller is still to send its body or to read its answer. */
  function cut(isLast: boolean): void {
    for (const [socket, res] of underWay) {
      const isTheirs = res === undefined || (isLast && (res.headersSent || !res.req.complete));
      if (isTheirs && (res === undefined || res.headersSent || !res.req.emit(lateEvent))) socket.destroy();
    }
  }

  return {
    port: (server.address() as AddressInfo).port,
    /** Has another app answer from now on. */
    serve(next: Koa): void {
      handle = next.callback();
    },
    drain,
    /** Accepts nothing new, lets every request under way end, or cuts it, and closes each connection after its answer. */
    async close(isCut = false): Promise<void> {
      drain();
      server.close();
      if (isCut) server.closeAllConnections();
      // Node looks at none of its own limits any more.
      const ends = [setTimeout(cut, limits.lastHeadMs, false), setTimeout(cut, limits.lastRestMs, true)];
      await once(server, 'close');
      for (const end of ends) clearTimeout(end);
    },
  };
}

const unheard: Record<string, string> = {
  EADDRINUSE: 'another process or server listens there',
  EADDRNOTAVAIL: 'this machine does not have the address',
  EACCES: 'the user of this process may not',
  ENOTFOUND: 'the name cannot be looked up',
};

/** Closes the connection of a caller that has not read its answer in time: unread bytes stay in our memory. */
function endUnlessSent(res: ServerResponse, withinMs: number): void {
  if (res.writableFinished || res.closed) return;
  const timer = setTimeout(() => res.destroy(), withinMs);
  res.once('close', () => clearTimeout(timer));
}

/**
 * Answers requests that never reach the app, in the form of every other error, and closes the connection.
 * @param answer the answer under way on this connection, if any
 */
function refuseBytes(err: ParserError, socket: Duplex, answer?: ServerResponse): void {
  if (!socket.writable || err.code === 'ECONNRESET' || answer?.headersSent) {
    socket.destroy();
    return;
  }
  const [code, message] = refusals[err.code ?? ''] ?? ['malformed_request', describeBytes(err)];
  const refusal = new ApiError(code, message);
  const requestId = String(answer?.getHeader('x-request-id') ?? randomUUID());
  const body = JSON.stringify(presentProblem(refusal, answer?.req.url ?? '/', requestId));
  const head = [
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    `X-Request-Id: ${requestId}`,
    'Cache-Control: no-store',
    'Connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
  // No longer to the parser.
  socket.removeAllListeners('data');
  void dropRest(socket, lingerMs).then(() => socket.destroy());
}

/** How long bytes that no parser takes any more are read and dropped. */
const lingerMs = 2_000;

/**
 * Says where the parser stopped. It names the header: that of the line, or, where base64 has broken a value into lines, of the last one
 * with a colon.
 */
function describeBytes({ code = '', reason = '', rawPacket, bytesParsed }: ParserError): string {
  const text = rawPacket?.toString('latin1') ?? '';
  const methods = [...text.matchAll(/(?<=^|\n)[a-z]{3,7}(?= \S+ HTTP\/)/gi)].map(String);
  const method = methods.find((one) => one !== one.toUpperCase());
  if (code === 'HPE_INVALID_METHOD' && method !== undefined)
    return `The method is written in capital letters: ${method.toUpperCase()}`;
  const end = text.indexOf('\n', bytesParsed);
  const lines = text.slice(0, end < 0 ? text.length : end).split('\n');
  const line = lines.findLast((one) => /^(?!\S+ +\S+ +HTTP)\S[^:]*:/.test(one)) ?? '';
  const name = /[\w-]{1,64}/.exec(line)?.[0];
  const isHeader = /^HPE_(INVALID_HEADER_TOKEN|CR_EXPECTED|LF_EXPECTED)$/.test(code) && name !== undefined;
  const header = `see the header ${name}, which must be one line without control characters, its name without blanks`;
  const [, where = isHeader && header] = stops.find(([pattern]) => pattern.test(`${code} ${reason}`)) ?? [];
  return `The request is not valid HTTP/1.1${where ? `: ${where}` : ''}`;
}

/** Where llhttp stopped, by its codes: the mistakes of honest callers. */
const stops: readonly [RegExp, string][] = [
  [/INVALID_(URL|CONSTANT)/, 'the path and the query must be percent-encoded, a blank as %20'],
  [/CONTENT_LENGTH|TRANSFER_ENCODING/, 'see the headers Content-Length and Transfer-Encoding'],
  [/EOF_STATE/, 'it broke off'],
  [/CHUNK_SIZE| chunk /, 'see the sizes of the chunks'],
  [/CLOSED_CONNECTION/, 'the body has no Content-Length, or is longer'],
  [/INVALID_METHOD/, 'it does not begin with a method (is it https, or the rest of a longer body?)'],
  [/H2_UPGRADE/, 'it is HTTP/2'],
  [/INVALID_VERSION|UNEXPECTED_SPACE/, 'see the first line'],
];

type ParserError = { code?: string; reason?: string; rawPacket?: Buffer; bytesParsed?: number };

/** By the codes of Node's HTTP server and of its parser, llhttp, or a method. */
const refusals: Record<string, [ErrorCode, string]> = {
  CONNECT: ['malformed_request', 'CONNECT is for a proxy, and this is none'],
  PIPELINED: ['malformed_request', 'Too many requests came before the answer to an earlier one'],
  ERR_HTTP_REQUEST_TIMEOUT: ['request_timeout', 'The request took too long'],
  HPE_HEADER_OVERFLOW: ['headers_too_long', 'The path, the query and the headers are too long'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ['body_too_long', 'The body is too long'],
};
