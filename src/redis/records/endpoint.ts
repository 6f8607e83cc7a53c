/** Reads an endpoint's state for people, and makes the changes that operators and publishers may ask for. */
import type { ChainableCommander } from 'ioredis';
import { type Db, nowOf } from '../connection/db.js';
import type { FieldOf, HashOf } from '../connection/fields.js';
import { runPipeline } from '../connection/pipeline.js';
import { runScript } from '../connection/runScript.js';
import { script } from '../connection/script.js';
import type { EndpointState } from './endpointStates.js';
import { type StateChange, stateChangeOf } from './stateChanges.js';

/** Times are ms since the epoch. */
export interface Endpoint {
  state: EndpointState;
  /** The account is disabled: nothing is sent. */
  held: boolean;
  owed: number;
  inFlight: number;
  generation: number;
  failures: number;
  oldestOwedAt?: number;
  firstFailureAt?: number;
  lastSuccessAt?: number;
  lastFailureAt?: number;
  lastError?: string;
  lastStatus?: number;
  nextAttemptAt?: number;
  /** When its `Retry-After` ends. */
  notBefore?: number;
  /** The change that led to this state, while it is among the last 20 that are kept. */
  lastChange?: StateChange;
}

export async function getEndpoint(db: Db, clientToken: string): Promise<Endpoint> {
  const [endpoint] = await getEndpoints(db, [clientToken]);
  return endpoint as Endpoint;
}

/** Reads the endpoints of many clients, in their order. */
export async function getEndpoints(db: Db, clientTokens: readonly string[]): Promise<Endpoint[]> {
  const endpoints: Endpoint[] = [];
  for (let start = 0; start < clientTokens.length; start += pageSize) {
    const page = clientTokens.slice(start, start + pageSize);
    const commands = db.redis.pipeline();
    for (const clientToken of page) ask(commands, db, clientToken);
    const answers = await runPipeline(commands);
    endpoints.push(
      ...page.map((clientToken, i) => endpointOf(db, clientToken, answers.slice(i * asked, (i + 1) * asked))),
    );
  }
  return endpoints;
}

/** Bounds each answer of Redis, so that a long list delays no other command. */
const pageSize = 500;
/** The number of commands that `ask` sends. */
const asked = 8;

function ask(commands: ChainableCommander, db: Db, clientToken: string): void {
  const keys = db.client(clientToken);
  const first = ['-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1] as const;
  commands
    .hgetall(keys.endpoint)
    .hlen(keys.owed)
    .zrangebyscore(keys.owedSince, ...first)
    .zrangebyscore(keys.dueLive, ...first)
    .zrangebyscore(keys.dueBackfill, ...first)
    .hlen(keys.flight)
    .hlen(keys.resends)
    .lindex(keys.stateChanges, 0);
}

function endpointOf(db: Db, clientToken: string, answers: readonly unknown[]): Endpoint {
  const value = <T>(i: number): T => answers[i] as T;
  const fields = value<HashOf<'endpoint'>>(0);
  const number = (name: FieldOf<'endpoint'>): number | undefined =>
    fields[name] ? Number(fields[name]) : undefined;
  const held = fields.held === '1';
  const health = (fields.state ?? 'active') as EndpointState;
  const state: EndpointState = fields.paused === '1' || held ? 'paused' : health;
  const change = value<string | null>(7);
  const underWay = value<number>(5);
  const owed = value<number>(1) + underWay;
  const oldest = value<string[]>(2)[1];
  const due = [value<string[]>(3)[1], value<string[]>(4)[1]].filter((d) => d !== undefined).map(Number);
  const now = nowOf(db);
  let nextAttemptAt: number | undefined;
  if (due.length > 0 && (state === 'active' || state === 'failing')) {
    nextAttemptAt = Math.max(now, Math.min(...due), number('not_before') ?? 0);
    if (state === 'failing') nextAttemptAt = Math.max(number('probe_at') ?? 0, number('not_before') ?? 0);
  }
  const optional = <K extends keyof Endpoint>(key: K, v: Endpoint[K] | undefined): Partial<Endpoint> =>
    v === undefined ? {} : ({ [key]: v } as Partial<Endpoint>);
  return {
    state,
    held,
    owed,
    inFlight: underWay + value<number>(6),
    generation: number('generation') ?? 0,
    failures: number('failures') ?? 0,
    ...optional('oldestOwedAt', oldest === undefined ? undefined : Number(oldest)),
    ...optional('firstFailureAt', number('first_failure_at')),
    ...optional('lastSuccessAt', number('last_success_at')),
    ...optional('lastFailureAt', number('last_failure_at')),
    ...optional('lastError', fields.last_error || undefined),
    ...optional('lastStatus', number('last_status')),
    ...optional('nextAttemptAt', nextAttemptAt),
    ...optional('notBefore', number('not_before')),
    ...optional('lastChange', change === null ? undefined : stateChangeOf(clientToken, change)),
  };
}

const stop = script('stopEndpoint');

/** Pauses all deliveries of a client until `unpauseEndpoint`. @returns whether that changed anything */
export async function pauseEndpoint(db: Db, clientToken: string): Promise<boolean> {
  return (await runScript(db, stop, clientToken, ['paused', 1, 'paused'])) === 1;
}

/** Ends a pause; the caller wakes catch-up. @returns whether that changed anything */
export async function unpauseEndpoint(db: Db, clientToken: string): Promise<boolean> {
  return (await runScript(db, stop, clientToken, ['paused', 0, 'resumed'])) === 1;
}

/** Holds a disabled account's client like a paused one, or ends the hold. @returns whether that changed anything */
export async function setHeld(db: Db, clientToken: string, held: boolean): Promise<boolean> {
  const why = held ? 'its account was disabled' : 'its account was enabled';
  return (await runScript(db, stop, clientToken, ['held', held ? 1 : 0, why])) === 1;
}

const resume = script('resumeEndpoint');

/**
 * Makes a suspended or failing endpoint due for a probe now; the caller wakes catch-up. When the probe succeeds, it drains.
 * @returns false for an active endpoint: there is nothing to resume
 */
export async function resumeEndpoint(
  db: Db,
  clientToken: string,
  by: 'operator' | 'publisher' = 'operator',
): Promise<boolean> {
  return (await runScript(db, resume, clientToken, [by])) === 1;
}
