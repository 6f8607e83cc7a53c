/** The connections to one server that run writes and confirm them. */
import type { Command, Redis } from 'ioredis';
import type { Durability } from '../../config.js';
import type { Logger } from '../../log.js';
import { ignore, isReadOnly, isRedirected, RedisUnavailable } from './unavailable.js';

export interface DurableSettings extends Durability {
  /** Prefix of the keys that are written before a confirmation. */
  mark: string;
  log: Logger;
}

/** A command on its way. */
export interface Write {
  command: Command;
  /** Its answer needs no confirmation. */
  isSafe: boolean;
  isAnswered: boolean;
  /** It is safe, or has failed. */
  hasEnded: boolean;
  end(err?: Error): void;
}

const connectionsOfServer = 2;
/**
 * How long one WAITAOF waits. A replica answers it before its fsync and reports again only after a second: with replicas it is
 * asked again and again (measured: 6 ms instead of 1,002).
 */
const sliceMs = { alone: 500, withReplicas: 4 };
const reconnectMs = 100;
const markSeconds = 60;
/** How often a server is asked when it flushes its log. */
const askEveryMs = 30_000;

interface Connection {
  redis: Redis;
  /** It has said when its server flushes its log. */
  isReady: boolean;
  isBusy: boolean;
  /** With each answer of this server the write is on disk, also while it rewrites its log. */
  flushesAlways: boolean;
}

/** The connections to one server, and the writes that wait for one of them. */
export class DurableServer {
  readonly #connections: readonly Connection[];
  #waiting: Write[] = [];
  #isScheduled = false;
  #canConfirm = true;

  constructor(
    readonly node: Redis,
    readonly settings: DurableSettings,
  ) {
    this.#connections = Array.from({ length: connectionsOfServer }, () => this.#open());
    const timer = setInterval(() => {
      for (const connection of this.#connections) void this.#askWhenItFlushes(connection);
    }, askEveryMs);
    timer.unref();
    // These lines are probably dead too, without either side having been told.
    node.on('close', () => {
      for (const { redis } of this.#connections) if (redis.status === 'ready') redis.disconnect(true);
    });
    node.once('end', () => {
      clearInterval(timer);
      for (const { redis } of this.#connections) redis.disconnect();
    });
  }

  #open(): Connection {
    const redis = this.node.duplicate({
      lazyConnect: false,
      commandTimeout: undefined,
      retryStrategy: () => reconnectMs,
      reconnectOnError: (err: Error) => {
        const isDemoted = isReadOnly(err);
        // The other connections lead there too.
        if (isDemoted && this.node.status === 'ready') this.node.disconnect(true);
        return isDemoted;
      },
    });
    const connection = { redis, isReady: false, isBusy: false, flushesAlways: false };
    redis.on('error', ignore);
    redis.on('close', () => {
      connection.isReady = false;
    });
    redis.on('ready', async () => {
      await this.#askWhenItFlushes(connection);
      connection.isReady = redis.status === 'ready';
      this.#send();
    });
    return connection;
  }

  /** An operator may change the settings at any time. A server that does not say (CONFIG may be forbidden) has to confirm. */
  async #askWhenItFlushes(connection: Connection): Promise<void> {
    if (this.settings.ackReplicas > 0 || connection.redis.status !== 'ready') return;
    const names = ['appendonly', 'appendfsync', 'no-appendfsync-on-rewrite'] as const;
    const flat = await connection.redis.config('GET', ...names).catch(() => []);
    const said = names.map((name) => (flat as string[])[(flat as string[]).indexOf(name) + 1]);
    connection.flushesAlways = said.join() === 'yes,always,no';
  }

  push(write: Write): void {
    this.#waiting.push(write);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#send();
    });
  }

  /** Sends all writes that wait, if a connection is free. */
  #send(): void {
    const connection = this.#connections.find(({ isReady, isBusy }) => isReady && !isBusy);
    if (connection === undefined) return;
    const writes = this.#waiting.filter(({ hasEnded }) => !hasEnded);
    this.#waiting = [];
    if (writes.length === 0) return;
    if (connection.flushesAlways) {
      const { stream } = connection.redis;
      stream.cork();
      for (const write of writes) {
        write.isSafe = true;
        connection.redis.sendCommand(write.command);
      }
      stream.uncork();
      return;
    }
    connection.isBusy = true;
    void this.#runAndConfirm(connection.redis, writes).finally(() => {
      connection.isBusy = false;
      this.#send();
    });
  }

  async #runAndConfirm(connection: Redis, writes: readonly Write[]): Promise<void> {
    const { stream } = connection;
    let left = writes;
    try {
      stream.cork();
      for (const { command } of writes) connection.sendCommand(command);
      let asked = this.#mark(connection, writes[0] as Write);
      stream.uncork();
      for (let tries = 1; ; tries++) {
        const answer = await asked;
        left = writes.filter(({ isAnswered, hasEnded }) => isAnswered && !hasEnded);
        if (answer === 'safe') for (const write of left) write.end();
        if (answer === 'safe' || left.length === 0) return;
        if (connection.stream !== stream) throw new RedisUnavailable('the connection was lost meanwhile');
        asked =
          answer === 'marked'
            ? this.#confirm(connection)
            : this.#mark(connection, left[tries % left.length] as Write);
      }
    } catch (err) {
      const reason = unconfirmed(err);
      for (const write of left) write.end(reason);
    }
  }

  /**
   * Writes a small key before it asks: WAITAOF waits for the connection's own last write, and an answer may rely on an earlier
   * write of another connection.
   */
  async #mark(connection: Redis, { command }: Write): Promise<'safe' | 'marked' | 'not marked'> {
    const mark = connection.set(markBeside(this.settings.mark, keyOf(command)), '', 'EX', markSeconds);
    const [marked, confirmed] = await Promise.allSettled([mark, this.#confirm(connection)]);
    if (marked.status === 'fulfilled' && confirmed.status === 'fulfilled') return confirmed.value;
    const { reason } = (marked.status === 'rejected' ? marked : confirmed) as PromiseRejectedResult;
    if (isRedirected(reason)) return 'not marked';
    throw reason;
  }

  async #confirm(connection: Redis): Promise<'safe' | 'marked'> {
    const { ackReplicas } = this.settings;
    const waitMs = ackReplicas > 0 ? sliceMs.withReplicas : sliceMs.alone;
    // An idle server notices the end of this time only after another command, or within 100 ms.
    const wake = setTimeout(() => this.node.ping().catch(ignore), waitMs + 1);
    try {
      const [here, replicas] = (await connection.call('WAITAOF', 1, ackReplicas, waitMs)) as [number, number];
      this.#note(true);
      return here >= 1 && replicas >= ackReplicas ? 'safe' : 'marked';
    } catch (err) {
      if (!(err instanceof Error && /unknown command|appendonly is disabled/i.test(err.message))) throw err;
      this.#note(false);
      if (ackReplicas > 0) throw err;
      return 'safe';
    } finally {
      clearTimeout(wake);
    }
  }

  #note(canConfirm: boolean): void {
    if (canConfirm === this.#canConfirm) return;
    this.#canConfirm = canConfirm;
    const { log } = this.settings;
    if (canConfirm) log.info('redis is durable again: it confirms that writes are on its disk');
    else {
      log.warn(
        'redis is not durable: it has no append-only file (appendonly yes), or cannot confirm writes (WAITAOF). ' +
          'A crash loses accepted writes. If the store is durable by itself, set REDIS_DURABILITY=trusted',
      );
    }
  }
}

export const unconfirmed = (cause?: unknown): RedisUnavailable =>
  new RedisUnavailable('redis did not confirm in time that a write is on disk', { cause });

export const keyOf = (command: Command): string => String(command.getKeys()[0] ?? '');

/** Returns a key in the slot of the given one. */
const markBeside = (mark: string, key: string): string => `${mark}:{${/\{([^}]+)\}/.exec(key)?.[1] ?? key}}`;
