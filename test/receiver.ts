/** A receiver of notifications that keeps what it got, and what tests wait with. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Server } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { freePort } from '../local/ports.js';

export interface Received {
  path: string;
  headers: IncomingHttpHeaders;
  /** Names and values in turn, as they came. */
  rawHeaders: string[];
  body: string;
  /** In how many pieces the body came. */
  pieces: number;
  at: number;
}

type Answer = number | 'hang' | 'cut' | { status: number; headers?: Record<string, string>; body?: string };

export type Receiver = Awaited<ReturnType<typeof startReceiver>>;

/** It stays until the process ends, and keeps none from its end. @param port a free one without it */
export async function startReceiver(port?: number) {
  let inFlight = 0;
  const server = createServer((req, res) => {
    receiver.mostInFlight = Math.max(receiver.mostInFlight, ++inFlight);
    res.on('close', () => {
      inFlight--;
    });
    let body = '';
    let pieces = 0;
    receiver.onHeaders(req, res);
    req.on('data', (chunk: Buffer) => {
      pieces++;
      body += chunk.toString();
    });
    req.on('end', async () => {
      const { headers, rawHeaders } = req;
      const one = { path: req.url ?? '', headers, rawHeaders, body, pieces, at: Date.now() };
      receiver.received.push(one);
      if (res.headersSent) return;
      const answer = await receiver.answer(one);
      if (answer === 'cut') req.socket.destroy();
      if (answer === 'hang' || answer === 'cut') return;
      setTimeout(() => {
        if (typeof answer === 'number') res.writeHead(answer).end();
        else res.writeHead(answer.status, answer.headers).end(answer.body);
      }, receiver.delayMs);
    });
  });
  server.on('connection', (socket) => socket.unref()).unref();
  const receiver = {
    url: `http://127.0.0.1:${await portOf(server, port)}/hook`,
    received: [] as Received[],
    /** Takes a request that came to another server. */
    serve: (req: IncomingMessage, res: ServerResponse): void => void server.emit('request', req, res),
    /** Does something before a body is read, which it may answer. */
    onHeaders: (_request: IncomingMessage, _response: ServerResponse): void => undefined,
    /** The answers to the next requests; `hang` is never answered, `cut` loses its connection. */
    answer: (_request: Received): Answer | Promise<Answer> => 200,
    delayMs: 0,
    mostInFlight: 0,
    idsOf: (platformId: string): string[] =>
      receiver.received
        .filter((r) => (JSON.parse(r.body) as { platform_id: string }).platform_id === platformId)
        .map((r) => String(r.headers['webhook-id'])),
    async close(): Promise<void> {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return receiver;
}

/** Answers as a receiver should: 204 to what a public library verifies with the secret, else 401. */
export const verifies =
  (secret: string) =>
  ({ body, headers }: Pick<Received, 'body' | 'headers'>): 204 | 401 => {
    try {
      new Webhook(secret).verify(body, headers as Record<string, string>);
      return 204;
    } catch {
      return 401;
    }
  };

/** Has a server listen on this machine. @returns its port */
export async function portOf(server: Server, given?: number): Promise<number> {
  const port = given ?? (await freePort());
  await once(server.listen(port, '127.0.0.1'), 'listening');
  return port;
}

/** Has a receiver answer 200 to nothing until the gate is opened. */
export function closeGate(receiver: Receiver): ReturnType<typeof startGate> {
  const gate = startGate();
  receiver.answer = async () => {
    await gate.closed;
    return 200;
  };
  return gate;
}

/** What waits until it is let go. */
export function startGate(): { closed: Promise<void>; open(): void } {
  let open: () => void = () => undefined;
  const closed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { closed, open };
}

export const succeeds = (what: Promise<unknown>): Promise<boolean> =>
  what.then(
    () => true,
    () => false,
  );

/** What is begun before the test that awaits it: a rejection fails that test, and no other. */
export function begun<T>(what: Promise<T>): Promise<T> {
  what.catch(() => undefined);
  return what;
}

/** Plays a scene again that failed after more than `ms`, when what it had used up, such as a rate, was there again. */
export async function within<T>(ms: number, scene: () => Promise<T>): Promise<T> {
  for (let tries = 5; ; tries--) {
    const from = performance.now();
    try {
      return await scene();
    } catch (err) {
      if (tries === 1 || performance.now() - from < ms) throw err;
    }
  }
}

export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false> | T | undefined | false,
  ms = 30_000,
): Promise<T> {
  const begun = Date.now();
  for (;;) {
    const from = Date.now();
    const found = await look();
    if (found !== undefined && found !== false) return found;
    const now = Date.now();
    if (now > begun + ms) throw new Error(`did not come about in ${ms} ms: ${what}`);
    // What takes long, or comes late, is looked for seldom.
    const pauseMs = Math.max(25, 3 * (now - from), (now - begun) / 20);
    await new Promise((resolve) => setTimeout(resolve, Math.min(pauseMs, 500)));
  }
}
