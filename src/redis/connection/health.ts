/**
 * What a process has learned of its Redis by using it, server by server: the one object that /readyz, `status`, `doctor`, the metrics
 * and the log ask. Servers are named in a cluster only.
 */
import type { Redis } from 'ioredis';
import type { Logger } from '../../log.js';
import {
  explainRefusals,
  isAnswer,
  isLasting,
  isOfCommand,
  type RedisReason,
  RedisUnavailable,
  type Refusal,
  refusalOf,
} from './unavailable.js';

export type ServerFacts = Partial<Awaited<ReturnType<typeof readFacts>>>;

/** Reads the store's own account of its memory; what it does not say is undefined. @throws errors of Redis */
export async function readFacts(redis: Redis) {
  const info = String(await redis.info());
  const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1];
  const number = (name: string) => (field(name) === undefined ? undefined : Number(field(name)));
  const facts = {
    usedBytes: number('used_memory'),
    /** 0: no limit of its own. */
    limitBytes: number('maxmemory'),
    evictedKeys: number('evicted_keys'),
    policy: field('maxmemory_policy') || undefined,
    keepsLog: field('aof_enabled') === undefined ? undefined : field('aof_enabled') === '1',
    replicas: number('connected_slaves'),
    /** Its clock against this machine's. */
    aheadMs: (number('server_time_usec') ?? Number.NaN) / 1000 - Date.now() || 0,
  };
  if (facts.usedBytes === undefined) throw new RedisUnavailable('INFO answers nothing');
  return facts;
}

/** Says what an eviction takes: a volatile policy takes only what would end by itself. */
export const lostBy = (policy: string): string =>
  policy.startsWith('volatile')
    ? 'records of notifications and valid access tokens are lost'
    : 'accepted events may be lost';

export type Refused = Refusal & { server: string };

export class StoreHealth {
  #refused = new Map<string, Refused>();
  #learning: Promise<Refused[]> | undefined;
  readonly #away = new Map<string, Refusal>();
  /** From the last `INFO` of each server. */
  readonly facts = new Map<string, ServerFacts>();
  /** The servers without an append-only file. */
  readonly notDurable = new Set<string>();
  /** The marks of the installation by their keys, as this process last saw them (mark.ts). */
  readonly marks = new Map<string, string>();
  /** The clock and its last step back by witness, as this process last saw them (clocks.ts). */
  readonly witnessed = new Map<string, [number, number]>();
  /** Servers whose clocks differ from this process' clock (clocks.ts). */
  readonly differing = new Set<Redis>();
  /** The mark of the installation is gone: no claim is made. */
  isEmptied = false;

  /** @param observe called for each command that failed, and each connection */
  constructor(
    readonly log: Logger,
    readonly observe: (reason: RedisReason) => void = () => {},
  ) {}

  /** Notes a command that a server refused. The log has each reason once, when it begins. */
  note(err: unknown, server = ''): void {
    const refused = { ...refusalOf(err), server };
    this.observe(refused.reason);
    if (this.#learning !== undefined || !isAnswer(refused) || this.#refused.has(keyOf(refused))) return;
    this.#refused.set(keyOf(refused), refused);
    this.#tell([refused]);
  }

  /** Notes whether a server can confirm that writes are on its disk. The log has each change. */
  noteDurable(canConfirm: boolean, server: string): void {
    if (canConfirm) {
      if (this.notDurable.delete(server))
        this.log.info('redis is durable again: it confirms that writes are on its disk');
    } else if (!this.notDurable.has(server)) {
      this.notDurable.add(server);
      this.#tell([{ reason: 'not_durable', server }]);
    }
  }

  /** Replaces what was noted by what a try of everything finds. There is one try at a time. */
  learn(tryAll: () => Promise<Refused[]>): Promise<Refused[]> {
    this.#learning ??= this.#learn(tryAll).finally(() => {
      this.#learning = undefined;
    });
    return this.#learning;
  }

  async #learn(tryAll: () => Promise<Refused[]>): Promise<Refused[]> {
    const found = await tryAll();
    // Why a connection fails is told by `connected`.
    const answers = found.filter(isAnswer);
    const before = this.#refused;
    // A server that did not answer has not said that it no longer refuses. Without a name: no node of a cluster did.
    const silent = new Set(found.filter((one) => !isAnswer(one)).map(({ server }) => server));
    const isSilent = ({ server }: Refused) => silent.has(server) || silent.has('');
    // That it confirms nothing is then no reason beside its silence.
    const kept = this.refused().filter((one) => isSilent(one) && one.reason !== 'unconfirmed');
    this.#refused = new Map([...kept, ...answers].map((one) => [keyOf(one), one]));
    this.#tell(answers.filter((one) => !before.has(keyOf(one))));
    const ended = [...before.values()].filter((one) => !this.#refused.has(keyOf(one)) && !isSilent(one));
    for (const { server, reason, commands } of explainRefusals(ended))
      this.log.info({ ...(server && { server }), reason, commands }, 'redis no longer refuses this');
    return found;
  }

  /** Notes what a server says of itself. The log has once that it loses keys, or will when it is full. */
  noteFacts(server: string, facts: ServerFacts): void {
    const before = this.facts.get(server);
    this.facts.set(server, facts);
    const { policy = 'noeviction', evictedKeys = 0 } = facts;
    const told = { ...(server && { server }), policy, do: 'CONFIG SET maxmemory-policy noeviction' };
    if (evictedKeys > 0 && !before?.evictedKeys) {
      this.log.error(told, `redis has evicted keys: ${lostBy(policy)}`);
    } else if (policy !== 'noeviction' && policy !== before?.policy) {
      this.log.warn(told, `redis evicts keys when it is full: ${lostBy(policy)}`);
    }
  }

  noteEmptied(isEmptied: boolean): void {
    if (isEmptied && !this.isEmptied) this.#tell([{ reason: 'emptied', server: '' }]);
    if (!isEmptied && this.isEmptied) this.log.warn('the store is as it should be again');
    this.isEmptied = isEmptied;
  }

  #tell(refused: readonly Refused[], what = ''): void {
    for (const { says, todo, lasts, server, reason, commands } of explainRefusals(refused)) {
      const about = { ...(server && { server }), reason, commands, do: todo };
      this.log[lasts ? 'error' : 'warn'](about, what + says);
    }
  }

  /** Returns what the servers refuse, as of the last use of it. */
  refused(): Refused[] {
    return [...this.#refused.values()];
  }

  reasons(): RedisReason[] {
    const now = [...this.#away.values(), ...this.refused()].map(({ reason }) => reason);
    return [...new Set(this.isEmptied ? ['emptied' as const, ...now] : now)];
  }

  /** Returns the reasons for which the store refuses only what no event needs. */
  lesserReasons(): RedisReason[] {
    const stopping = new Set(
      [...this.#away.values(), ...this.refused().filter(stopsIntake)].map(({ reason }) => reason),
    );
    return this.reasons().filter((reason) => isOfCommand(reason) && !stopping.has(reason));
  }

  /** Returns whether events fail although this server answers. A full Redis delivers. */
  isRefusing(name: string): boolean {
    const refused = this.refused().filter(({ server }) => server === name || server === '');
    return this.isEmptied || refused.some(stopsIntake);
  }

  /** Notes that a connection failed, or answers (without `err`). */
  connected(name: string, err?: unknown): void {
    if (err === undefined) {
      if (this.#away.delete(name)) this.log.info(name === '' ? {} : { server: name }, 'redis is back');
      return;
    }
    const refusal = refusalOf(err);
    this.observe(refusal.reason);
    const known = this.#away.get(name);
    // The end of a connection says less than the refusal before it.
    const saysLess = !isAnswer(refusal) && refusal.code === undefined;
    if (known !== undefined && (known.reason === refusal.reason || saysLess)) return;
    this.#away.set(name, refusal);
    this.#tell([{ ...refusal, server: name }], 'redis is away: ');
  }

  /** Forgets the servers that are no longer part of the cluster. @param names of those that are */
  keepOnly(names: readonly string[]): void {
    for (const known of [this.#away, this.facts, this.notDurable])
      for (const name of known.keys()) if (!names.includes(name)) known.delete(name);
  }

  /** Returns why a command found no connection: the error of the connection if there is one. */
  behind(err: unknown, name = ''): Refusal {
    const refusal = refusalOf(err);
    if (refusal.reason !== 'away' && refusal.reason !== 'timeout') return refusal;
    const known = this.#away.get(name);
    if (known !== undefined || refusal.reason === 'timeout') return known ?? refusal;
    const away = [...this.#away.values()];
    return [...this.refused(), ...away].find(isLasting) ?? away[0] ?? refusal;
  }
}

/** Refusals of one reason are one, unless each command needs a right of its own. */
const keyOf = (refused: Refused): string =>
  `${refused.server} ${refused.reason} ${isOfCommand(refused.reason) ? refused.command : ''}`;

/** Commands of every event and of the call for a token (test/redis/verdicts.test.ts finds them). */
export const ofIntake: ReadonlySet<string> = new Set(
  'FCALL GET HGET HLEN HMGET HSET SET TIME WAITAOF ZADD ZCARD ZREVRANGE'.split(' '),
);

/**
 * True for a refusal that the next event would meet, or the call for its token. Where some events, a page or a click fail, they fail in
 * every process: without any, a balancer would refuse the rest too.
 */
const stopsIntake = ({ reason, command }: Refusal): boolean =>
  isOfCommand(reason) ? command === undefined || ofIntake.has(command) : reason !== 'full';

/**
 * INFO and ECHO serve only those who look after the store, the next two only a call that waits for an update, and PTTL a call that
 * is refused anyway.
 */
export const stopsCalls = ({ command = '' }: Refusal): boolean =>
  !['INFO', 'ECHO', 'PUBLISH', 'PSUBSCRIBE', 'PTTL'].includes(command);
