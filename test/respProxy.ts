/** A proxy before a Redis that answers chosen commands in the words of a provider. */
import { connect, createServer, type Socket } from 'node:net';
import { portOf } from './receiver.js';

/** An answer in the place of the server's: an error's text, or an empty array. */
export type Words = string | [];

export async function startRespProxy(targetUrl: string) {
  const { port: targetPort, hostname } = new URL(targetUrl);
  const sockets = new Set<Socket>();
  const refused = new Map<string, Words>();

  /** The server itself gives the answer, so that all answers stay in order. */
  function rewrite(words: Buffer[]): Buffer[] {
    const answer = refused.get(String(words[0]).toUpperCase());
    if (answer === undefined) return words;
    const script = answer.length === 0 ? 'return {}' : 'return redis.error_reply(ARGV[1])';
    return ['EVAL', script, '0', String(answer)].map((word) => Buffer.from(word));
  }

  const server = createServer((inside) => {
    const outside = connect(Number(targetPort), hostname);
    for (const [one, other] of [
      [inside, outside],
      [outside, inside],
    ] as const) {
      sockets.add(one);
      one.on('error', () => undefined);
      one.on('close', () => other.destroy());
    }
    outside.pipe(inside);
    let pending = Buffer.alloc(0);
    inside.on('data', (data: Buffer) => {
      pending = Buffer.concat([pending, data]);
      for (let parsed = parse(pending); parsed !== undefined; parsed = parse(pending)) {
        pending = pending.subarray(parsed.length);
        outside.write(format(rewrite(parsed.words)));
      }
    });
  });
  return {
    url: `redis://127.0.0.1:${await portOf(server)}`,
    /** By command, in capital letters. */
    refused,
    async stop(): Promise<void> {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Returns the words of the first command, and how many bytes it takes; undefined until it is whole. */
function parse(bytes: Buffer): { words: Buffer[]; length: number } | undefined {
  let at = 0;
  const readNumber = (): number | undefined => {
    const end = bytes.indexOf('\r\n', at);
    if (end < 0) return undefined;
    const number = Number(bytes.toString('latin1', at + 1, end));
    at = end + 2;
    return number;
  };
  const count = readNumber();
  const words: Buffer[] = [];
  for (let i = 0; count !== undefined && i < count; i++) {
    const length = readNumber();
    if (length === undefined || bytes.length < at + length + 2) return undefined;
    words.push(bytes.subarray(at, at + length));
    at += length + 2;
  }
  return count === undefined ? undefined : { words, length: at };
}

const format = (words: readonly Buffer[]): Buffer =>
  Buffer.concat([
    Buffer.from(`*${words.length}\r\n`),
    ...words.flatMap((word) => [Buffer.from(`$${word.length}\r\n`), word, Buffer.from('\r\n')]),
  ]);
