/**
 * The line to Temporal. The SDK's pings notice after up to 45 s that a line died without a word; a worker's cannot be
 * set, and no server takes more of them than one in 10 s. So every connection leads through this process, is cut here
 * once it is silent, and waits here while Temporal is away.
 *
 * No HTTP proxy, though the SDK knows them: to one it does not set TCP_NODELAY, and every call takes 40 ms longer.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { Logger } from '../log.js';

export interface Line {
  /** Where the SDK connects to instead; on loopback, and leading nowhere but to Temporal. */
  port: number;
  /** Temporal's host. */
  host: string;
  /** From now on `ask` is called while Temporal says nothing; what it answers does not matter. */
  watch(ask: () => Promise<unknown>): void;
  close(): Promise<void>;
}

const lookEveryMs = 500;
/** Longer than a busy server takes to say anything at all to a question. */
const silentForMs = 3000;
/** While Temporal is away. */
const tryAgainMs = 250;
/** A new connection says something at once. */
const silentFromTheStartMs = 2000;

export async function openLine(address: string, log: Logger): Promise<Line> {
  const url = new URL(`tcp://${address}`);
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const temporalPort = Number(url.port || 7233);
  const open = new Set<Socket>();
  let watching: NodeJS.Timeout | undefined;
  /** What questions go through; an older one is left to end by itself. */
  let newest: { outside: Socket; heardBytes: number; silentLooks: number } | undefined;

  const server = createServer({ noDelay: true }, (inside) => {
    keep(inside);
    reach(inside);
  });

  function reach(inside: Socket): void {
    if (inside.destroyed) return;
    const outside = connect({ host, port: temporalPort, noDelay: true });
    keep(outside);
    const unanswered = setTimeout(() => outside.destroy(), silentFromTheStartMs);
    const leave = () => outside.destroy();
    inside.once('close', leave);
    let reached = false;
    outside.once('close', () => {
      clearTimeout(unanswered);
      inside.off('close', leave);
      // Whose connection is refused asks again when it likes, a worker after up to 10 s: it is kept waiting instead.
      if (!reached && watching !== undefined) setTimeout(reach, tryAgainMs, inside);
      else inside.destroy();
    });
    outside.once('connect', () => {
      reached = true;
      clearTimeout(unanswered);
      inside.pipe(outside).pipe(inside);
      newest = { outside, heardBytes: 0, silentLooks: 0 };
    });
  }

  function keep(socket: Socket): void {
    open.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => open.delete(socket));
  }
  server.listen(0, '127.0.0.1');
  await new Promise((resolve, reject) => server.once('listening', resolve).once('error', reject));

  // Looks are counted, not time: a process that was held up itself has heard nothing either.
  function look(ask: () => Promise<unknown>): void {
    if (newest === undefined || newest.outside.destroyed) return;
    const { outside, heardBytes } = newest;
    if (outside.bytesRead > heardBytes) {
      newest.heardBytes = outside.bytesRead;
      newest.silentLooks = 0;
      return;
    }
    newest.silentLooks++;
    if (newest.silentLooks * lookEveryMs < (heardBytes > 0 ? silentForMs : silentFromTheStartMs)) {
      ask().catch(() => undefined);
      return;
    }
    log.warn({ address }, 'the line to Temporal is dead; it is cut and made anew');
    outside.destroy();
  }

  return {
    port: (server.address() as AddressInfo).port,
    host,
    watch(ask) {
      watching = setInterval(() => look(ask), lookEveryMs);
    },
    async close() {
      clearInterval(watching);
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
