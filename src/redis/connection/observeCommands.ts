import type { Command, Redis } from 'ioredis';
import { isNotLoaded, type RedisErrorClass, redisErrorClass } from './unavailable.js';

/** Called for every command of a connection: its duration, ms, and the reason if it failed. */
export type CommandObserver = (milliseconds: number, error?: RedisErrorClass) => void;

/** ioredis' own command: its sender waits for the promise behind these two. */
export interface SentCommand {
  resolve(value: unknown): void;
  reject(err: Error): void;
}

/** Times each command from the moment it is sent. */
export function observeCommands(redis: Redis, observe: CommandObserver): void {
  const send = redis.sendCommand.bind(redis);
  redis.sendCommand = (command, ...rest) => {
    observeCommand(command as Command, observe);
    return send(command, ...rest);
  };
}

/** Times a command from now on. It makes no promise, because every event passes here. */
export function observeCommand(command: Command, observe: CommandObserver): void {
  const sent = command as unknown as SentCommand;
  const { resolve, reject } = sent;
  const sentAt = performance.now();
  sent.resolve = (value) => {
    observe(performance.now() - sentAt);
    resolve(value);
  };
  sent.reject = (err) => {
    // The server does not have the scripts yet: they are loaded.
    observe(performance.now() - sentAt, isNotLoaded(err) ? undefined : redisErrorClass(err.message));
    reject(err);
  };
}
