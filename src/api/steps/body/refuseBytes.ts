import { randomUUID } from 'node:crypto';
import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { ApiError, problemOf } from '../../apiError.js';

/**
 * Answers requests that the HTTP parser refuses, in the form of every other error, and closes the connection.
 * @param answer the answer under way on this connection, if any
 */
export function refuseBytes(
  err: NodeJS.ErrnoException,
  socket: Duplex,
  answer: ServerResponse | undefined,
): void {
  if (!socket.writable || err.code === 'ECONNRESET' || answer?.headersSent) {
    socket.destroy();
    return;
  }
  const refusal = refusalOf(err.code);
  const requestId = String(answer?.getHeader('x-request-id') ?? randomUUID());
  const body = JSON.stringify(problemOf(refusal, answer?.req.url ?? '/', requestId));
  const head = [
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    `X-Request-Id: ${requestId}`,
    'Cache-Control: no-store',
    'Connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy());
}

/** Translates the codes of Node's HTTP server and of its parser, llhttp. */
function refusalOf(code: string | undefined): ApiError {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new ApiError('request_timeout', 'The request took too long');
    case 'HPE_HEADER_OVERFLOW':
      return new ApiError('headers_too_long', 'The path, the query and the headers are too long');
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new ApiError('body_too_long', 'The body is too long');
    default:
      return new ApiError('malformed_request', 'The request is not valid HTTP/1.1');
  }
}
