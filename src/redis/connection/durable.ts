/**
 * Runs writes whose answer promises something on connections that confirm them. The writes of a turn of the event loop go to a
 * server together. WAITAOF follows on the same connection (Redis 7.2+, Valkey): so who confirms a write is who ran it. WAITAOF
 * holds its connection, so each server has two, in turn.
 */
import type { Command, Redis } from 'ioredis';
import type { Durability } from '../../config.js';
import type { Logger } from '../../log.js';
import type { Nodes } from './nodes.js';
import { type CommandObserver, observeCommand, type SentCommand } from './observeCommands.js';
import { spreadPipeline } from './spreadPipeline.js';
import { RedisUnavailable } from './unavailable.js';

interface Settings extends Durability {
  redis: Redis;
  nodes: Nodes;
  /** Prefix of the keys that are written before a confirmation. */
  mark: string;
  /** A write that is not confirmed within this time fails. */
  withinMs: number;
  observe: CommandObserver | undefined;
  log: Logger;
}

export interface DurableConnection {
  /** Takes the commands of one piece of work. */
  redis: Redis;
  /** Resolves once those commands are safe. @throws RedisUnavailable if that is not confirmed in time */
  safe(): Promise<void>;
}

/** A command on its way. */
interface Write {
  command: Command;
  /** Its answer needs no confirmation. */
  isSafe: boolean;
  isAnswered: boolean;
  /** It is safe, or has failed. */
  hasEnded: boolean;
  end(err?: Error): void;
}

const connectionsOfServer = 2;
/** The pause before a command is sent again whose slot has moved or is being moved. */
const redirectedMs = 30;
/**
 * How long one WAITAOF waits. A replica answers it before its fsync and reports again only after a second: with replicas it is
 * asked again and again (measured: 6 ms instead of 1,002).
 */
const sliceMs = { alone: 500, withReplicas: 4 };
const reconnectMs = 100;
const markSeconds = 60;
/** How often a server is asked when it flushes its log. */
const askEveryMs = 30_000;

/** Returns a function that begins a piece of work. */
export function durableConnections(settings: Settings): () => DurableConnection {
  const { redis, nodes, trusted, withinMs, observe } = settings;
  if (trusted) return () => ({ redis, safe: () => Promise.resolve() });
  const servers = new WeakMap<Redis, Server>();

  function route(write: Write): void {
    write.isSafe = false;
    const node = nodes.ownerOf(keyOf(write.command));
    if (node?.status !== 'ready') {
      write.end(new RedisUnavailable('Connection is closed: the server of a write is unavailable'));
      return;
    }
    let server = servers.get(node);
    if (server === undefined) {
      server = new Server(node, settings);
      servers.set(node, server);
    }
    server.push(write);
  }

  function begin(command: Command): Promise<void> {
    if (observe !== undefined) observeCommand(command, observe);
    const sent = command as unknown as SentCommand;
    const { resolve, reject } = sent;
    const safe = new Promise<void>((confirm, fail) => {
      const write: Write = {
        command,
        isSafe: false,
        isAnswered: false,
        hasEnded: false,
        end(err) {
          if (write.hasEnded) return;
          write.hasEnded = true;
          clearTimeout(timer);
          if (err === undefined) confirm();
          else if (write.isAnswered) fail(err);
          else {
            reject.call(command, err);
            confirm();
          }
        },
      };
      const timer = setTimeout(() => write.end(unconfirmed()), withinMs);
      sent.resolve = (value) => {
        write.isAnswered = true;
        resolve.call(command, value);
        if (write.isSafe) write.end();
      };
      sent.reject = (err) => {
        if (write.hasEnded || !isRedirected(err)) return write.end(err);
        nodes.refresh();
        setTimeout(() => write.hasEnded || route(write), redirectedMs);
      };
      route(write);
    });
    safe.catch(ignore);
    return safe;
  }

  return () => {
    const safe: Promise<void>[] = [];
    const own = Object.create(redis) as Redis;
    own.sendCommand = (command) => {
      safe.push(begin(command as Command));
      return (command as Command).promise;
    };
    own.pipeline = () => spreadPipeline(own);
    return { redis: own, safe: async () => void (await Promise.all(safe)) };
  };
}

interface Connection {
  redis: Redis;
  /** It has said when its server flushes its log. */
  isReady: boolean;
  isBusy: boolean;
  /** With each answer of this server the write is on disk, also while it rewrites its log. */
  flushesAlways: boolean;
}

/** The connections to one server, and the writes that wait for one of them. */
class Server {
  readonly #connections: readonly Connection[];
  #waiting: Write[] = [];
  #isScheduled = false;
  #canConfirm = true;

  constructor(
    readonly node: Redis,
    readonly settings: Settings,
  ) {
    this.#connections = Array.from({ length: connectionsOfServer }, () => this.#open());
    const timer = setInterval(() => {
      for (const connection of this.#connections) void this.#askWhenItFlushes(connection);
    }, askEveryMs);
    timer.unref();
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
      for (const write of writes) {
        write.isSafe = true;
        connection.redis.sendCommand(write.command);
      }
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

const unconfirmed = (cause?: unknown): RedisUnavailable =>
  new RedisUnavailable('redis did not confirm in time that a write is on disk', { cause });

const isRedirected = (err: unknown): boolean =>
  err instanceof Error && /^(MOVED|ASK|TRYAGAIN) /.test(err.message);

const keyOf = (command: Command): string => String(command.getKeys()[0] ?? '');

/** Returns a key in the slot of the given one. */
const markBeside = (mark: string, key: string): string => `${mark}:{${/\{([^}]+)\}/.exec(key)?.[1] ?? key}}`;

/** The error reaches the callers; this only prevents an unhandled rejection. */
function ignore(): void {}
