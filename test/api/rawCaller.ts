/** A caller that writes bytes instead of requests, and keeps what comes back. */
import { connect } from 'node:net';

export type RawCaller = ReturnType<typeof callRaw>;

export function callRaw(url: string, bytes: string | Buffer = '') {
  const { port, hostname } = new URL(url);
  const socket = connect(Number(port), hostname);
  const pieces: Buffer[] = [];
  /** Everything that has come back so far. */
  const heard = () => Buffer.concat(pieces).toString('latin1');
  socket.on('data', (piece: Buffer) => pieces.push(piece));
  // A server that refuses may close while we still write.
  socket.on('error', () => undefined);
  /** Resolves with all that came back when the connection is closed. */
  const closed = new Promise<string>((resolve) => socket.once('close', () => resolve(heard())));
  if (bytes.length > 0) socket.write(bytes);
  return { socket, heard, closed };
}

/** Sends a POST but for the last byte of its body, and returns what sends that byte and answers with all that came back. */
export function callWithoutEnd(url: string, headers: Record<string, string>, body: string) {
  const { host, pathname, search } = new URL(url);
  const all = { host, connection: 'close', 'content-length': body.length, ...headers };
  const head = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  const begun = [`POST ${pathname}${search} HTTP/1.1`, ...head, '', body.slice(0, -1)].join('\r\n');
  const { socket, closed } = callRaw(url, begun);
  return () => {
    socket.write(body.slice(-1));
    return closed;
  };
}

/** The statuses of the answers in what came back, interim ones too. */
export const statusesIn = (heard: string): number[] =>
  [...heard.matchAll(/^HTTP\/1\.1 (\d{3}) /gm)].map((match) => Number(match[1]));
