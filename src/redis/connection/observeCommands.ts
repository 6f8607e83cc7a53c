import type { Redis } from 'ioredis';

/** Why Redis did not do what it was asked. `other`: a mistake of ours, such as a script that fails. */
export const redisErrorClasses = ['away', 'timeout', 'full', 'disk', 'not_ready', 'other'] as const;
export type RedisErrorClass = (typeof redisErrorClasses)[number];

/** Told of every command of a connection: how long it took, ms, and why it failed where it did. */
export type CommandObserver = (milliseconds: number, error?: RedisErrorClass) => void;

/** ioredis' own command: whoever sends one waits for the promise behind these two. */
interface SentCommand {
  resolve(value: unknown): void;
  reject(err: Error): void;
}

/** Times each command from the moment it is sent. No promise is made for it: this is on the way of every event. */
export function observeCommands(redis: Redis, observe: CommandObserver): void {
  const send = redis.sendCommand.bind(redis);
  redis.sendCommand = (command, ...rest) => {
    const sent = command as unknown as SentCommand;
    const { resolve, reject } = sent;
    const sentAt = performance.now();
    sent.resolve = (value) => {
      observe(performance.now() - sentAt);
      resolve(value);
    };
    sent.reject = (err) => {
      // The server does not have the script yet: it is sent whole.
      const isAnswer = err.message.startsWith('NOSCRIPT');
      observe(performance.now() - sentAt, isAnswer ? undefined : classOf(err.message));
      reject(err);
    };
    return send(command, ...rest);
  };
}

const classes: readonly (readonly [RegExp, RedisErrorClass])[] = [
  [/OOM command not allowed/, 'full'],
  [/MISCONF/, 'disk'],
  [/timed out/, 'timeout'],
  [/^(READONLY|LOADING|MASTERDOWN|CLUSTERDOWN|NOREPLICAS|BUSY|TRYAGAIN)\b/, 'not_ready'],
  [/Too many Cluster redirections|cluster is down/, 'not_ready'],
  [/Connection is closed|isn't writeable|isn't ready|max retries per request|ECONN|EPIPE|ETIMEDOUT/, 'away'],
];

function classOf(message: string): RedisErrorClass {
  return classes.find(([words]) => words.test(message))?.[1] ?? 'other';
}
