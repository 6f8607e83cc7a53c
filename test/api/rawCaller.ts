/** A caller that writes bytes instead of requests, and keeps what comes back. */
import { connect } from 'node:net';
import { assertDescribed } from './reference/described.js';
import { isWatched } from './reference/watchAnswers.js';

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
  const closed = new Promise<string>((resolve, reject) =>
    socket.once('close', () => {
      try {
        if (isWatched(url)) assertLastDescribed(String(bytes), heard());
        resolve(heard());
      } catch (err) {
        reject(err as Error);
      }
    }),
  );
  // Not every test waits for the end.
  closed.catch(() => undefined);
  if (bytes.length > 0) socket.write(bytes);
  return { socket, heard, closed };
}

/** Holds the only answer to the only request of a connection against the API's description. */
function assertLastDescribed(sent: string, heard: string): void {
  const [, method, path] = /^([A-Z]+) (\/[^ ?]*)[^ ]* HTTP\/1\.[01]\r\n/.exec(sent) ?? [];
  const [, status, head = '', text = ''] =
    /^HTTP\/1\.1 (\d{3}) [^\r]*\r\n([\s\S]*?)\r\n\r\n([\s\S]*)$/.exec(heard) ?? [];
  if (method === undefined || path === undefined || status === undefined || Number(status) < 200) return;
  const headers = new Headers(
    head
      .split('\r\n')
      .map((line): [string, string] => [
        line.slice(0, line.indexOf(':')),
        line.slice(line.indexOf(':') + 1).trim(),
      ]),
  );
  if (Number(headers.get('content-length')) !== text.length) return;
  assertDescribed({ method, path, status: Number(status), headers, text });
}

/** The statuses of the answers in what came back, interim ones too. */
export const statusesIn = (heard: string): number[] =>
  [...heard.matchAll(/^HTTP\/1\.1 (\d{3}) /gm)].map((match) => Number(match[1]));
