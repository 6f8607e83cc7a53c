/** A TCP proxy between the service and a server, that can lose what a broken network loses. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface Proxy {
  url: string;
  /**
   * The next command that holds `text` reaches the server and is answered; the answer is lost with the connection.
   * Resolves when that has happened.
   */
  cutBeforeReply(text: string): Promise<void>;
  /** From now on nothing gets through, and nobody is told; what is sent is kept. */
  hang(): void;
  /** Lets through what was kept, and all that follows. */
  release(): void;
  close(): Promise<void>;
}

export async function startProxy(targetUrl: string): Promise<Proxy> {
  const target = new URL(targetUrl);
  const sockets = new Set<Socket>();
  let cut: { text: string; done: () => void } | undefined;
  let hanging = false;
  let kept: (() => void)[] = [];

  const server = createServer((inside) => {
    const outside = connect(Number(target.port), target.hostname);
    let losing: (() => void) | undefined;
    for (const socket of [inside, outside]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        inside.destroy();
        outside.destroy();
      });
    }
    inside.on('data', (data) => {
      if (cut && data.includes(cut.text)) {
        losing = cut.done;
        cut = undefined;
      }
      if (hanging) kept.push(() => outside.write(data));
      else outside.write(data);
    });
    outside.on('data', (data) => {
      if (!losing) {
        inside.write(data);
        return;
      }
      inside.destroy();
      losing();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;

  return {
    url: `redis://127.0.0.1:${port}`,
    cutBeforeReply: (text) =>
      new Promise((resolve) => {
        cut = { text, done: resolve };
      }),
    hang() {
      hanging = true;
    },
    release() {
      hanging = false;
      for (const write of kept) write();
      kept = [];
    },
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => resolve());
      }),
  };
}
