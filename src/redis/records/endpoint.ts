/** Reads an endpoint's state for people, and makes the changes that operators and publishers may ask for. */
import type { Logger } from '../../log.js';
import { restsBetweenSteps } from '../../promises.js';
import { type Db, nowOf } from '../connection/db.js';
import { askScript, readEachKey, runScript } from '../connection/library.js';
import { ignore, unlessBroken } from '../connection/unavailable.js';
import { announceChange, announceClaims } from '../owed/owedClients.js';
import type { WaitReason } from '../owed/waitReasons.js';
import { noteMinute } from './auditMinutes.js';
import { getRegistration, type Registration } from './registrations.js';

export const endpointStates = ['active', 'failing', 'paused', 'suspended'] as const;
export type EndpointState = (typeof endpointStates)[number];

/** An endpoint and what it is owed, read at the same moment. Times are ms by Redis' clock. */
export interface Endpoint {
  readAt: number;
  state: EndpointState;
  /** The account is disabled, or paused: nothing is sent. */
  held: boolean;
  accountPaused?: true;
  owed: number;
  inFlight: number;
  owedSince?: number;
  /** Each update that was claimed before has arrived, or was replaced by one that has, or ended as failed or cancelled; absent without a URL. */
  deliveredUntil?: number;
  /** The last replay: its span, the time of the updates that it has reached, how many assets it has owed again. */
  replay?: { since: number; untilMs: number; at: number; count: number; runs: boolean; endedAt?: number };
  /** Notifications that ended as cancelled in the last 14 days. */
  cancelled: number;
  /** Assets whose newest notification has failed, and when the first of them did. */
  failed: number;
  failedSince?: number;
  quietSeconds: number;
  /** When something may be sent next, and why not before. */
  nextAttemptAt?: number;
  waitingReason?: WaitReason;
  /**
   * For how long something could have been sent, or an attempt's lease has been over, or, if only a change from outside helps, since
   * when catch-up should have planned again. Below 0: that time is yet to come.
   */
  overdueMs: number;
  /** For how long catch-up should have looked: it has not done so when it said, or knows nothing of what became due. Below 0: in time. */
  catchUpLateMs: number;
  /** Until when catch-up sleeps; undefined if none is known to run. */
  catchUpUntil?: number;
  /** False if a waiting asset lacks an owed-since or due time, or an asset that does not wait has one. */
  isConsistent: boolean;
  failures: number;
  firstFailureAt?: number;
  lastSuccessAt?: number;
  lastFailureAt?: number;
  /** The notification of that attempt, whose record may be gone. */
  lastFailedId?: string;
  lastError?: string;
  lastDetail?: string;
  lastStatus?: number;
  /** The change that led to this state, while it is among the last 20 that are kept. */
  lastChange?: Omit<StateChange, 'clientToken'>;
}

export function getEndpoint(db: Db, clientToken: string): Promise<Endpoint> {
  const { maxInFlight, drainPerSecond, keepFailedMs } = db.settings;
  return askScript(db, 'endpoint', clientToken, [maxInFlight, drainPerSecond, keepFailedMs]);
}

/** The states that people see: an endpoint without a URL has no state of its own. */
export const siteStates = ['not_registered', ...endpointStates] as const;

/** What a list of sites is filtered by: its state, or that it has failed assets. */
export const siteFilters = [...siteStates, 'failed'] as const;

export const siteStateOf = ({ state }: Endpoint, registration: Registration | undefined) =>
  registration ? state : 'not_registered';

/** Returns whether an endpoint needs a look although nothing is owed. */
export const isAmiss = ({ state, held, failed }: Pick<Endpoint, 'state' | 'held' | 'failed'>): boolean =>
  failed > 0 || state !== 'active' || held;

/** Reads a client with its endpoint and URL for a list. The broken keys of one client hide no other. */
export async function readSite<T extends { clientToken: string }>(db: Db, client: T) {
  const [health, registration] = await Promise.all([
    unlessBroken(getEndpoint(db, client.clientToken), ignore),
    unlessBroken(getRegistration(db, client.clientToken), ignore),
  ]);
  const state = health ? siteStateOf(health, registration) : 'unreadable';
  return { ...client, state, health, registration };
}

/** Pauses all deliveries of a client, or ends the pause; the caller wakes catch-up. @returns whether that changed anything */
export async function setPaused(db: Db, clientToken: string, paused: boolean): Promise<boolean> {
  const args = ['paused', paused ? 1 : 0, paused ? 'paused' : 'resumed'];
  // `status` looks at clients that are announced, until the sweep has noted that this one is amiss.
  await (paused ? announceClaims : announceChange)(db, clientToken);
  return (await runScript(db, 'stopEndpoint', clientToken, args)) === 1;
}

/** Holds the client of a disabled or paused account like a paused one, or ends the hold. @returns whether that changed anything */
export async function setHeld(db: Db, clientToken: string, held: boolean | 'paused'): Promise<boolean> {
  const why = `its account was ${held === 'paused' ? held : held ? 'disabled' : 'enabled or resumed'}`;
  const value = held === 'paused' ? held : held ? 1 : 0;
  await (held ? announceClaims : announceChange)(db, clientToken);
  return (await runScript(db, 'stopEndpoint', clientToken, ['held', value, why])) === 1;
}

/** Returns whether an account's clients are held, of its record's fields: a disabled one's say so. */
export const holdOf = ({ disabled, paused }: { disabled: boolean; paused: boolean }) =>
  disabled || (paused && ('paused' as const));

/**
 * Makes a suspended or failing endpoint due for a probe now; the caller wakes catch-up. After a successful probe the owed assets
 * drain. An active endpoint only forgets Retry-After.
 * @returns false for an active endpoint
 */
export async function resumeEndpoint(db: Db, clientToken: string, by: 'operator' | 'publisher' = 'operator') {
  await announceChange(db, clientToken);
  return (await runScript(db, 'resumeEndpoint', clientToken, [by])) === 1;
}

export interface StateChange {
  clientToken: string;
  /** Redis' own clock, ms. */
  at: number;
  from: EndpointState | 'not_registered';
  to: EndpointState | 'not_registered';
  /** In words. */
  why: string;
  by: 'service' | 'publisher' | 'operator';
}

/**
 * Returns the changes of some clients since a time (ms), of each the oldest first.
 * @param onBroken is called for each client whose changes cannot be read
 * @throws if Redis is unavailable
 */
export async function listStateChanges(
  db: Db,
  clientTokens: readonly string[],
  since: number,
  onBroken: (clientToken: string, err: unknown) => unknown,
): Promise<StateChange[]> {
  const found: StateChange[] = [];
  const keys = clientTokens.map((clientToken) => db.client(clientToken).stateChanges);
  const lists = await readEachKey<string[]>(db, keys, 'LRANGE', [0, -1], restsBetweenSteps());
  for (const [i, clientToken] of clientTokens.entries()) {
    const lines = lists[i] ?? [];
    if (lines instanceof Error) onBroken(clientToken, lines);
    else found.push(...changesIn(clientToken, lines.reverse()).filter(({ at }) => at >= since));
  }
  return found;
}

/** Returns the last 20 of one client, the newest first. */
export async function readStateChanges(db: Db, clientToken: string): Promise<StateChange[]> {
  return changesIn(clientToken, await db.redis.lrange(db.client(clientToken).stateChanges, 0, -1));
}

const changesIn = (clientToken: string, lines: string[]): StateChange[] =>
  lines.map((line) => ({ clientToken, ...JSON.parse(line) }));

/**
 * Notes a client's changes since a time (ms) for audits of everybody, which show no operator's: the process that reports one may end
 * before it has noted it.
 */
export async function noteStateChanges(db: Db, clientToken: string, since: number): Promise<void> {
  for (const { at, by } of await readStateChanges(db, clientToken))
    if (at >= since && by !== 'operator') await noteMinute(db, 'client', clientToken, at);
}

/** Logs, counts and notes a change of a registration's state. A suspension is logged as an error, because somebody must act. */
export function reportStateChange(
  { db, log, metrics }: { db: Db; log: Logger; metrics: { entered(state: string): void } },
  { clientToken, from, to, why }: Pick<StateChange, 'clientToken' | 'from' | 'to' | 'why'>,
): void {
  noteMinute(db, 'client', clientToken, nowOf(db)).catch(ignore);
  if (from === to) return;
  metrics.entered(to);
  const level = to === 'suspended' ? 'error' : to === 'failing' ? 'warn' : 'info';
  log[level]({ client_token: clientToken, from, to, why }, 'a registration changed its state');
}
