/** Publishes the events of a load, each of an asset of its own unless the load says otherwise, and accounts for them. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import type { Child } from './child.js';
import type { Load } from './loads.js';
import { monotonicMs } from './processUsage.js';
import type { FromReceiver, ToReceiver } from './receiver.js';

export type Receiver = Child<ToReceiver, FromReceiver>;

/** An event for the site with this number. */
export type Event = { id: string; asset: string; site: number };

/** What takes events. */
export interface Running {
  /** Requests go to these addresses in turn. */
  baseUrls: readonly string[];
  /** The path of each site at the receiver. */
  paths: readonly string[];
  request(events: readonly Event[]): { path: string; headers: Record<string, string>; body: string };
  /** What a successful answer holds for each event; by default nothing is looked for. */
  accepted?: string;
}

/** `key`: its path at the receiver and its asset; `at`: sent, or at a fixed rate due: a slow answer hides no delay of later requests. */
type Sent = { key: string; at: number; answeredAt?: number | undefined };

/** How long a request is repeated that failed or got 409, 429 or 5xx, and how often. */
const [patienceMs, pauseMs] = [60_000, 250];
/** Assets of each client whose segments are made known. */
export const knownAssets = 20;
let publishers = 0;

export class Publisher {
  readonly sent: Sent[] = [];
  /** Refusals by status or error code; a request that is repeated counts each time. */
  readonly refusals: Record<string, number> = {};
  /** The first unexpected answer. */
  oddity?: string;
  /** Events that were acknowledged or given up. */
  settled = 0;
  readonly #label = `b${process.pid}-${publishers++}`;
  #requests = 0;

  constructor(
    readonly load: Pick<Load, 'pace' | 'batchSize' | 'eventsPerTurn' | 'total' | 'isKnown'>,
    readonly running: Running,
  ) {}

  /** Publishes until the time or the events end; resolves once each is acknowledged or given up. */
  async publish(durationMs = Number.POSITIVE_INFINITY): Promise<void> {
    const { pace, total = Number.POSITIVE_INFINITY } = this.load;
    // At a fixed rate enough, so that no request waits for one.
    const connections = pace.kind === 'concurrency' ? pace.publishers : 512;
    const pools = this.running.baseUrls.map((url) => new Pool(url, { connections, pipelining: 1 }));
    const send = (at: number) => this.#send(pools[this.#requests++ % pools.length] as Pool, at);
    const begun = monotonicMs();
    const isOver = (at: number) => at >= begun + durationMs || this.sent.length >= total;
    const answers: Promise<void>[] = [];
    if (pace.kind === 'concurrency') {
      const caller = async () => {
        for (let now = begun; !isOver(now); now = monotonicMs()) await send(now);
      };
      answers.push(...Array.from({ length: connections }, caller));
    } else {
      for (let due = begun; !isOver(due); due += 1000 / pace.requestsPerSecond) {
        // Timers fire up to 1 ms early: a request sent before its time would look faster than it was.
        for (let waitMs = due - monotonicMs(); waitMs > 0; waitMs = due - monotonicMs()) await sleep(waitMs);
        answers.push(send(due));
      }
    }
    await Promise.all(answers);
    for (const pool of pools) await pool.close();
  }

  async #send(pool: Pool, at: number): Promise<void> {
    const { paths } = this.running;
    const { batchSize = 1, total = Number.POSITIVE_INFINITY } = this.load;
    const from = this.sent.length;
    const events = Array.from({ length: Math.min(batchSize, total - from) }, (_, i) => this.#event(from + i));
    const sent = events.map(({ site, asset }): Sent => ({ key: `${paths[site]} ${asset}`, at }));
    this.sent.push(...sent);
    const request = this.running.request(events);
    let refusal = await this.#attempt(pool, request, events.length);
    while (refusal !== undefined) {
      this.refusals[refusal] = (this.refusals[refusal] ?? 0) + 1;
      if (/^4(?!09|29)/.test(refusal) || monotonicMs() > at + patienceMs) break;
      await sleep(pauseMs);
      refusal = await this.#attempt(pool, request, events.length);
    }
    const answeredAt = refusal === undefined ? monotonicMs() : undefined;
    for (const one of sent) one.answeredAt = answeredAt;
    this.settled += sent.length;
  }

  #event(n: number): Event {
    const { eventsPerTurn = 1, isKnown } = this.load;
    const sites = this.running.paths.length;
    const [id, asset] = [`${this.#label}-${n}`, `known-${n % (knownAssets * sites)}`];
    return { id, asset: isKnown ? asset : id, site: Math.floor(n / eventsPerTurn) % sites };
  }

  /** Sends a request. Returns why it was not acknowledged. */
  async #attempt(pool: Pool, request: ReturnType<Running['request']>, count: number) {
    try {
      const { statusCode, body } = await pool.request({ method: 'POST', headersTimeout: 10_000, ...request });
      const text = await body.text();
      const { accepted } = this.running;
      const isWhole = accepted === undefined || text.split(accepted).length - 1 === count;
      if (statusCode < 300 && isWhole) return undefined;
      this.oddity ??= `${statusCode} ${text.slice(0, 300)}`;
      if (statusCode >= 300) return String(statusCode);
      return text.includes('"temporarily_unavailable"') ? '503 of an item' : '4xx of an item';
    } catch (err) {
      return err instanceof Error && 'code' in err ? String(err.code) : String(err);
    }
  }

  /** Collects arrivals until every acknowledged event is there and a second passes, or nothing comes for so long. */
  async drain(receiver: Receiver, waitMs: number): Promise<Arrival[]> {
    const all: Arrival[] = [];
    const missing = new Set(
      this.load.isKnown ? [] : this.sent.flatMap(({ key, answeredAt }) => (answeredAt ? [key] : [])),
    );
    let quietSince = monotonicMs();
    while (monotonicMs() - quietSince < (missing.size > 0 ? waitMs : 1000)) {
      await sleep(200);
      const collected = receiver.next('collected');
      receiver.send({ kind: 'collect' });
      const { posts, at } = await collected;
      if (posts.length > 0) quietSince = monotonicMs();
      posts.forEach((post, i) => {
        const [, path, asset] = arrived.exec(post) ?? [];
        missing.delete(`${path} ${asset}`);
        all.push({ key: `${path} ${asset}`, at: at[i] ?? 0 });
      });
    }
    return all;
  }

  /** Accounts for what was sent. Times are those of `monotonicMs`. */
  account(arrivals: readonly Arrival[]) {
    const known = new Set(this.sent.map(({ key }) => key));
    const ours = arrivals.filter(({ key }) => known.has(key));
    const first = new Map(ours.toReversed().map(({ key, at }) => [key, at]));
    const acknowledged = this.sent.flatMap(({ key, at, answeredAt }) =>
      answeredAt === undefined ? [] : [{ at, answeredAt, arrivedAt: first.get(key) }],
    );
    const delivered = acknowledged.flatMap(({ at, arrivedAt }) => (arrivedAt ? [{ at, arrivedAt }] : []));
    return {
      acknowledged,
      delivered,
      /** First arrivals, also of events that were not acknowledged. */
      arrivedAt: [...first.values()],
      lost: this.load.isKnown ? 0 : acknowledged.length - delivered.length,
      twice: ours.length - first.size,
      givenUp: this.sent.length - acknowledged.length,
    };
  }
}

/** The first part of a POST that arrived: path and asset. */
type Arrival = { key: string; at: number };

/** PostgreSQL writes a blank after a colon. */
const arrived = /^(\S+) .*"platform_id": ?"([^"]*)"/;
