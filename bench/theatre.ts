import { type Cast, createCast } from './cast.js';
import { startChild } from './child.js';
import type { Receiver } from './drain.js';
import type { FromPublisher, FromReceiver, ToPublisher, ToReceiver } from './jobs.js';
import type { Publisher } from './measure.js';
import type { Pids } from './processUsage.js';
import { type Stack, type StackOptions, startStack } from './stack.js';

/** Everything that runs during a measurement. */
export interface Theatre {
  stack: Stack;
  cast: Cast;
  publisher: Publisher;
  receiver: Receiver;
  receiverUrl: string;
  /** The yardstick for tokens. */
  bareKoa: { baseUrl: string; pid: number };
  /** The service, its servers, and the benchmark's own processes. */
  pids: Pids;
  stop(): Promise<void>;
}

export async function startTheatre(options: StackOptions): Promise<Theatre> {
  const children: { stop(): Promise<void> }[] = [];
  const started = async <To extends object, From extends { kind: string }>(
    name: string,
    env?: Record<string, string>,
  ) => {
    const one = await startChild<To, From>(name, env);
    children.push(one.child);
    return one;
  };
  const stack = await startStack(options);
  const stop = async () => {
    for (const child of children) await child.stop();
    await stack.stop();
  };
  try {
    const { child: publisher } = await started<ToPublisher, FromPublisher>('publisher');
    const { child: receiver, ready } = await started<ToReceiver, FromReceiver>('receiver');
    const bare = await started<never, { kind: 'ready'; port: number }>('bareKoa', {
      REDIS_URL: stack.redisUrl,
    });
    if (ready.kind !== 'ready') throw new Error('the receiver has no port');
    return {
      stack,
      cast: await createCast(stack),
      publisher,
      receiver,
      receiverUrl: `http://127.0.0.1:${ready.port}`,
      bareKoa: { baseUrl: `http://127.0.0.1:${bare.ready.port}`, pid: bare.child.pid },
      pids: { ...stack.pids, publisher: publisher.pid, receiver: receiver.pid },
      stop,
    };
  } catch (err) {
    await stop();
    throw err;
  }
}
