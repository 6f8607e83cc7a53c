/** A caller that writes bytes instead of requests, and keeps what comes back. */
import { connect, type Socket } from 'node:net';

export interface RawCaller {
  socket: Socket;
  /** Everything that has come back so far. */
  heard(): string;
  /** Resolves with all of it when the connection is closed. */
  closed: Promise<string>;
}

export function callRaw(url: string, bytes: string | Buffer = ''): RawCaller {
  const { port, hostname } = new URL(url);
  const socket = connect(Number(port), hostname);
  const pieces: Buffer[] = [];
  const heard = () => Buffer.concat(pieces).toString('latin1');
  socket.on('data', (piece: Buffer) => pieces.push(piece));
  // A server that refuses may close while we still write.
  socket.on('error', () => undefined);
  const closed = new Promise<string>((resolve) => socket.once('close', () => resolve(heard())));
  if (bytes.length > 0) socket.write(bytes);
  return { socket, heard, closed };
}

/** The statuses of the answers in what came back, interim ones too. */
export const statusesIn = (heard: string): number[] =>
  [...heard.matchAll(/^HTTP\/1\.1 (\d{3}) /gm)].map((match) => Number(match[1]));
