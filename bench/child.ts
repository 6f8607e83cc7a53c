import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { nodeFlags } from '../local/nodeFlags.js';

/** A process of the benchmark itself, run from its TypeScript, with which the benchmark exchanges typed messages. */
export interface Child<To, From extends { kind: string }> {
  pid: number;
  send(message: To): void;
  /** Resolves with the next message of this kind. @throws if the process ends first */
  next<K extends From['kind']>(kind: K): Promise<Extract<From, { kind: K }>>;
  stop(): Promise<void>;
}

/** Starts `bench/<name>.ts` with the service's own options of Node and waits for its message `ready`. */
export async function startChild<To extends object, From extends { kind: string }>(
  name: string,
  env: Record<string, string> = {},
): Promise<{ child: Child<To, From>; ready: Extract<From, { kind: 'ready' }> }> {
  const forked = fork(fileURLToPath(new URL(`${name}.ts`, import.meta.url)), {
    execArgv: [...nodeFlags, '--import', 'tsx'],
    serialization: 'advanced',
    // Ctrl-C reaches only the benchmark, which then ends its processes in order.
    detached: true,
    env: { ...process.env, ...env },
  });
  const exited = new Promise<void>((resolve) => {
    for (const end of ['exit', 'error']) forked.once(end, () => resolve());
  });
  const child: Child<To, From> = {
    pid: forked.pid ?? 0,
    send: (message) => {
      forked.send(message);
    },
    next: (kind) =>
      new Promise((resolve, reject) => {
        const onMessage = (message: unknown) => {
          const from = message as From;
          if (from.kind !== kind) return;
          forked.off('message', onMessage);
          resolve(from as Extract<From, { kind: typeof kind }>);
        };
        forked.on('message', onMessage);
        exited.then(() => reject(new Error(`the benchmark's ${name} ended before it said "${kind}"`)));
      }),
    stop: async () => {
      forked.kill('SIGTERM');
      await exited;
    },
  };
  return { child, ready: await child.next('ready') };
}
