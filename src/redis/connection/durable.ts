/**
 * Runs writes whose answer promises something on connections that confirm them. The writes of a round of the event loop go to a
 * server together. WAITAOF follows on the same connection (Redis 7.2+, Valkey), so the server that ran a write confirms it.
 * WAITAOF blocks its connection, so each server has two, in turn.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Command, type Redis } from 'ioredis';
import type { Durability } from '../../config.js';
import { withTimeout } from '../../promises.js';
import type { StoreHealth } from './health.js';
import { evaluate } from './library.js';
import { type Nodes, redirectedMs, retryStrategy, watchConnection } from './nodes.js';
import { ignore, isAnswer, isRedirected, needsSomebody, RedisUnavailable, refusalOf } from './unavailable.js';

interface Settings extends Durability {
  nodes: Nodes;
  /** A write that is not confirmed within this time fails. */
  withinMs: number;
  /** Prefix of the keys that are written before a confirmation. */
  mark: string;
  health: StoreHealth;
}

export interface Written<T> {
  /** The answer of Redis, which a crash may still undo. */
  answer: Promise<T>;
  /**
   * The same answer, once all commands of the write are on disk.
   * @throws RedisUnavailable. If the confirmation did not come in time, the write may have been made, or may be lost.
   */
  safe: Promise<T>;
}

/** Returns what gives the commands of one write a connection of their own, in place of `redis`. */
export function durableWrites(redis: Redis, settings: Settings) {
  const { nodes, trusted, withinMs } = settings;
  const servers = new WeakMap<Redis, DurableServer>();

  function findServer(command: Command): DurableServer {
    const node = nodes.ownerOf(keyOf(command));
    if (node?.status !== 'ready')
      throw new RedisUnavailable('Connection is closed: the server of a write is unavailable');
    const server = servers.get(node) ?? new DurableServer(node, settings);
    servers.set(node, server);
    return server;
  }

  async function run(command: Command): Promise<Answered> {
    const endsAt = performance.now() + withinMs;
    for (let sent = command; ; sent = new Command(command.name, command.args, { replyEncoding: 'utf8' })) {
      try {
        return await findServer(sent).run(sent, endsAt);
      } catch (err) {
        if (!isRedirected(err) || performance.now() > endsAt) throw err;
        nodes.refresh();
        await sleep(redirectedMs);
      }
    }
  }

  return <T>(write: (own: Redis) => Promise<T>): Written<T> => {
    const confirmations: Promise<unknown>[] = [];
    const own = Object.create(redis) as Redis;
    own.sendCommand = (command) =>
      withTimeout(run(command as Command), withinMs, () => {
        const node = nodes.ownerOf(keyOf(command as Command));
        throw unconfirmed(node && servers.get(node)?.broken());
      }).then(({ answer, safe }) => {
        confirmations.push(safe);
        return answer;
      });
    const answer = write(trusted ? redis : own);
    const safe = answer.then((given) => Promise.all(confirmations).then(() => given));
    // Its reader may give up before.
    safe.catch(ignore);
    return { answer, safe };
  };
}

interface Answered {
  answer: unknown;
  /** Resolves once the write is on disk. @throws RedisUnavailable */
  safe: Promise<void>;
}

interface Write {
  command: Command;
  /** By the clock of `performance.now`: it is not sent later. */
  endsAt: number;
  resolve(answered: Answered): void;
  reject(err: unknown): void;
}

const connectionsOfServer = 2;
/**
 * How long one WAITAOF waits. A replica answers it before its fsync and reports again only after a second: with replicas it is
 * asked again and again (measured: 6 ms instead of 1,002).
 */
const sliceMs = { alone: 500, withReplicas: 4 };

interface Connection {
  redis: Redis;
  /** Why no write can be sent on it; undefined once the server has answered on it. */
  broken: unknown;
  isBusy: boolean;
}

/** The connections to one server, and the writes that wait for one of them. */
class DurableServer {
  readonly #connections: readonly Connection[];
  readonly #name: string;
  #waiting: Write[] = [];
  #isScheduled = false;

  constructor(
    readonly node: Redis,
    readonly settings: Settings,
  ) {
    this.#name = settings.nodes.nameOf(node);
    this.#connections = Array.from({ length: connectionsOfServer }, () => this.#open());
    // These lines are probably dead too, without either side having been told.
    node.on('close', () => {
      for (const { redis } of this.#connections) if (redis.status === 'ready') redis.disconnect(true);
    });
    node.once('end', () => {
      for (const { redis } of this.#connections) redis.disconnect();
    });
  }

  #open(): Connection {
    // A server that refuses a connection has accepted it before: only an answer ends a row of tries.
    let tries = 0;
    const redis = this.node.duplicate({
      lazyConnect: false,
      commandTimeout: undefined,
      retryStrategy: () => retryStrategy(++tries),
    });
    const connection: Connection = { redis, broken: unconfirmed(), isBusy: false };
    redis.on('close', () => {
      connection.broken ??= new RedisUnavailable('Connection is closed');
    });
    watchConnection(redis, this.settings.nodes.greet, (err) => {
      // The end of a connection says less than the refusal before it.
      if (err === undefined || isAnswer(refusalOf(err)) || connection.broken === undefined)
        connection.broken = err;
      // The other connections may all work; where they do not, they tell why.
      const isAlone = err !== undefined && this.node.status === 'ready';
      if (isAlone && needsSomebody(refusalOf(err))) this.settings.health.note(err, this.#name);
      if (err !== undefined) return;
      tries = 0;
      this.#send();
    });
    return connection;
  }

  /** Returns why the server cannot be used, if no connection to it works. */
  broken(): unknown {
    const [first, ...others] = this.#connections;
    return others.every(({ broken }) => broken !== undefined) ? first?.broken : undefined;
  }

  /** Runs a command. @throws errors of Redis: the command needs no confirmation */
  run(command: Command, endsAt: number): Promise<Answered> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ command, endsAt, resolve, reject });
      if (!this.#isScheduled) setImmediate(() => this.#send());
      this.#isScheduled = true;
    });
  }

  #send(): void {
    this.#isScheduled = false;
    const writes = this.#waiting.filter(({ endsAt }) => endsAt > performance.now());
    this.#waiting = writes;
    const connection = this.#connections.find(({ broken, isBusy }) => broken === undefined && !isBusy);
    if (connection === undefined || writes.length === 0) return;
    this.#waiting = [];
    const { redis } = connection;
    redis.stream.cork();
    const answers = writes.map(({ command }) => redis.sendCommand(command) as Promise<unknown>);
    const endsAt = Math.max(...writes.map((write) => write.endsAt));
    const confirming = this.#confirmAll(redis, writes, answers, endsAt);
    const safe = withTimeout(confirming, endsAt - performance.now(), () => {
      throw unconfirmed();
    });
    safe.catch((err) => this.settings.health.note(err, this.#name));
    redis.stream.uncork();
    for (const [i, { resolve, reject }] of writes.entries())
      answers[i]?.then((answer) => resolve({ answer, safe }), reject);
    connection.isBusy = true;
    const finish = () => {
      connection.isBusy = false;
      this.#send();
    };
    confirming.then(finish, finish);
  }

  /**
   * Writes a small key before it asks: WAITAOF waits for the connection's own last write, and an answer may rely on an earlier
   * write of another connection.
   */
  async #confirmAll(redis: Redis, writes: readonly Write[], answers: Promise<unknown>[], endsAt: number) {
    const { nodes, mark } = this.settings;
    const own = { redis, nodes, clockOffsetMs: () => 0 };
    let marking: Promise<unknown> | undefined;
    for (let i = 0; performance.now() < endsAt; i++) {
      const { command } = writes[i % writes.length] as Write;
      marking ??= evaluate(own, 'mark', [markBeside(mark, keyOf(command))]);
      const [marked, asked] = await Promise.allSettled([marking, this.#confirm(redis)]);
      if (marked.status === 'rejected') {
        if (!isRedirected(marked.reason)) throw unconfirmed(marked.reason);
        if ((await Promise.allSettled(answers)).every(({ status }) => status === 'rejected')) return;
        // The slot of this key is being moved: another key may be in another slot.
        marking = undefined;
      } else if (asked.status === 'rejected') throw unconfirmed(asked.reason);
      else if (asked.value) return;
    }
    throw unconfirmed();
  }

  async #confirm(connection: Redis): Promise<boolean> {
    const { ackReplicas } = this.settings;
    const waitMs = ackReplicas > 0 ? sliceMs.withReplicas : sliceMs.alone;
    // An idle server notices the end of this time only after another command, or within 100 ms. One may come too early.
    const wake = setInterval(() => this.node.echo('').catch(ignore), waitMs + 1);
    try {
      const answer = await connection.call('WAITAOF', 1, ackReplicas, waitMs);
      const [here, replicas] = (Array.isArray(answer) ? answer : []) as number[];
      if (here === undefined || replicas === undefined) throw new RedisUnavailable('WAITAOF answers nothing');
      this.settings.health.noteDurable(true, this.#name);
      return here >= 1 && replicas >= ackReplicas;
    } catch (err) {
      if (refusalOf(err).reason !== 'not_durable') throw err;
      this.settings.health.noteDurable(false, this.#name);
      if (ackReplicas > 0) throw err;
      return true;
    } finally {
      clearInterval(wake);
    }
  }
}

const unconfirmed = (cause?: unknown): RedisUnavailable =>
  new RedisUnavailable('redis did not confirm in time that a write is on disk', { cause });

const keyOf = (command: Command): string => String(command.getKeys()[0] ?? '');

const markBeside = (mark: string, key: string): string => `${mark}:{${/\{([^}]+)\}/.exec(key)?.[1] ?? key}}`;
