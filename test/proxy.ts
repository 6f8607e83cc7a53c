/** A TCP proxy between the service and a server, that can do what a broken network does. */
import { connect, createServer, type Socket } from 'node:net';
import { portOf } from './receiver.js';

export type Proxy = Awaited<ReturnType<typeof startProxy>>;

/** @param at its port; a free one without it */
export async function startProxy(targetUrl: string, at?: number) {
  let target = new URL(targetUrl);
  const sockets = new Set<Socket>();
  const pairs = new Set<{ forgotten: boolean }>();
  let cut: { text: string; done: () => void } | undefined;
  let hanging = false;
  let unreachable = false;
  let resetting = false;
  let line: { latencyMs?: number; bytesPerSecond?: number } = {};
  let kept: (() => void)[] = [];

  /** In order, each piece after the line's latency and the time that its bytes take. */
  function carry(to: Socket): (data: Buffer) => void {
    const queue: { data: Buffer; at: number }[] = [];
    const next = () => {
      const [first] = queue;
      if (first) setTimeout(deliver, Math.max(0, first.at - Date.now()));
    };
    const deliver = () => {
      const first = queue.shift();
      if (first && to.writable) to.write(first.data);
      next();
    };
    return (data) => {
      const { latencyMs = 0, bytesPerSecond } = line;
      const takesMs = bytesPerSecond === undefined ? 0 : (data.length / bytesPerSecond) * 1000;
      if (queue.length === 0 && latencyMs + takesMs === 0) {
        to.write(data);
        return;
      }
      queue.push({ data, at: Math.max(queue.at(-1)?.at ?? 0, Date.now() + latencyMs) + takesMs });
      if (queue.length === 1) next();
    };
  }

  const server = createServer((inside) => {
    const outside = connect(Number(target.port), target.hostname);
    const pair = { forgotten: unreachable };
    pairs.add(pair);
    let losing: (() => void) | undefined;
    for (const socket of [inside, outside]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        if (pair.forgotten) return;
        pairs.delete(pair);
        inside.destroy();
        outside.destroy();
      });
    }
    const carryOut = carry(outside);
    const carryIn = carry(inside);
    inside.on('data', (data: Buffer) => {
      if (pair.forgotten) return;
      if (cut && data.includes(cut.text)) {
        losing = cut.done;
        cut = undefined;
      }
      if (hanging) kept.push(() => outside.write(data));
      else carryOut(data);
    });
    outside.on('data', (data: Buffer) => {
      if (pair.forgotten) return;
      if (losing) {
        inside.destroy();
        losing();
      } else if (resetting) {
        inside.write(data.subarray(0, data.length >> 1), () => inside.resetAndDestroy());
      } else carryIn(data);
    });
  });
  const port = await portOf(server, at);

  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    /**
     * The next command that holds `text` reaches the server and is answered; the answer is lost with the connection.
     * Resolves when that has happened.
     */
    cutBeforeReply: (text: string) =>
      new Promise<void>((resolve) => {
        cut = { text, done: resolve };
      }),
    /** From now on nothing gets through, without an error to either side; what is sent is kept. */
    hang(): void {
      hanging = true;
    },
    release(): void {
      hanging = false;
      for (const write of kept) write();
      kept = [];
    },
    /**
     * Half open: what is connected now is dead for good without either side being told, as behind a router that
     * forgot it; a new connection is taken and gets nothing through until `reach`.
     */
    forget(): void {
      unreachable = true;
      for (const pair of pairs) pair.forgotten = true;
    },
    /** New connections get through again. */
    reach(): void {
      unreachable = false;
    },
    /** New connections lead to another server; what is connected now stays where it is, as after a failover. */
    lead(targetUrl: string): void {
      target = new URL(targetUrl);
    },
    /** Both ways, for what is connected and for what will be. */
    slow(wanted: typeof line): void {
      line = wanted;
    },
    /** While true every answer ends half way in a reset. */
    resetAnswers(on: boolean): void {
      resetting = on;
    },
    close: () =>
      new Promise<void>((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => resolve());
      }),
  };
}
