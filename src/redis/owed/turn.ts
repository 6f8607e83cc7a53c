/** Settles attempts and takes the next ones of a client, in one script: the one gate before every POST. */
import { randomBytes } from 'node:crypto';
import { type Moment, momentIn } from '../../times.js';
import { inOrder, type ScriptArgument } from '../connection/arguments.js';
import type { Db } from '../connection/db.js';
import { askScript } from '../connection/library.js';
import type { AttemptRecord } from './standing.js';

const ownName = randomBytes(6).toString('base64url');
let calls = 0;

/** Identifies one call of a script, and the attempts that it takes, over all processes. */
export const newNonce = (): string => `${ownName}${(calls++).toString(36)}`;

/** `backfill` waits behind live events. */
export type Priority = 'live' | 'backfill';

/** An attempt that may be made, under a lease. */
export interface Taken {
  platformId: string;
  notificationId: string;
  priority: Priority;
  /** The nonce of the call that took the asset: it identifies this attempt among all attempts of the asset. */
  nonce: string;
  epoch: number;
  url: string;
  /** Fields of the client's signing-secrets hash, as stored. */
  secrets: Record<string, string>;
  leaseEnds: Moment;
  trace?: string;
  /** The body of a notice; undefined for an asset-update. */
  body?: string;
  /** When the newest update of the asset was claimed, ms, with a fraction where two would be equal; of a notice, when it was made. */
  updatedAt?: string;
  /** The attempts of this notification that have failed, and this one. */
  attempt: number;
}

/** The attempts that a call has taken, and the client's next time. */
export interface Takes {
  taken: Taken[];
  /** In how many ms something may be sent next; undefined if nothing waits, or for a change or an attempt's end. */
  nextInMs?: number;
  wakeCatchUp: boolean;
}

/** The end of an attempt: the receiver answered, or failed to. */
export type Verdict = { taken: Taken; ok: boolean; retryAfterMs?: number; attempt: AttemptRecord };

/** An endpoint's state without a pause that may hide it. */
type EndpointHealth = 'active' | 'failing' | 'suspended';

export interface Settled {
  result: 'delivered' | 'retry' | 'failed' | 'gone';
  /** In how many ms the notification is due again; absent if it is no longer owed. */
  inMs?: number;
  failures: number;
  change?: { from: EndpointHealth; to: EndpointHealth; why: string };
  /** When its event was accepted, ms; absent if its record is gone. */
  acceptedAt?: number;
  /** No attempt of this notification has ended before, and its client did not hold it back: by state, bounds or receiver. */
  isTimed: boolean;
}

export interface Taking {
  /** New for each call that takes something; a turn that names it as lost finds what the call has taken. */
  nonce: string;
  most: number;
}

export interface Turn extends Taking {
  /** Nonces of calls whose answers were lost: what they have taken is due again. */
  lost?: readonly string[];
  verdicts?: readonly Verdict[];
  /** Taken but not attempted: due again after `inMs` (0: in its former order), and nothing is counted. */
  givenBack?: readonly { taken: Taken; inMs: number }[];
}

export type Turned = Takes & { settled: Settled[] };

/** Runs one turn. @throws errors of Redis; a repeated turn names the nonce of the first as lost */
export async function runTurn(db: Db, clientToken: string, turn: Turn): Promise<Turned> {
  const { lost = [], verdicts = [], givenBack = [] } = turn;
  const settings = verdicts.some(({ ok }) => !ok) ? JSON.stringify(db.settings) : undefined;
  const args = inOrder('turn', { lost: lost.join(' '), settings, verdicts: verdicts.length });
  for (const { taken, ok, retryAfterMs = 0, attempt } of verdicts) {
    const { platformId: asset, notificationId: id, nonce, epoch } = taken;
    const { status = '', error = '' } = attempt;
    const line = JSON.stringify(attempt);
    const random = ok ? 0 : Math.random();
    const verdict = { asset, id, nonce, epoch, isOk: ok, status, error, retryAfterMs, line, random };
    args.push(...inOrder('verdict', verdict));
  }
  for (const { taken, inMs } of givenBack) {
    const { platformId: asset, nonce } = taken;
    args.push(...inOrder('givenBack', { asset, nonce, inMs: Math.ceil(inMs) }));
  }
  return { settled: [], ...(await askTaking<Partial<Turned>>(db, 'turn', clientToken, args, turn)) };
}

/** What all attempts of one answer share. */
type Shared = 'epoch' | 'url' | 'secrets';
type Own = Exclude<keyof Taken, Shared | 'nonce' | 'leaseEnds'>;

/** The answer of `answer_taken` in take.lua. Without `taken`, nothing was taken. */
interface TakesAnswer extends Omit<Takes, 'taken'>, Partial<Pick<Taken, Shared>> {
  taken?: Pick<Taken, Own>[];
  /** With the secrets, unless the caller knows this version. */
  secretsVersion?: string;
}

/** The secrets of the most clients that a process remembers. */
const maxKnownSecrets = 10_000;

/** Runs a script that may take (`read_bounds` and `answer_taken` in take.lua). @param taking undefined: it takes nothing */
export async function askTaking<Answer>(
  db: Db,
  script: 'claim' | 'turn',
  clientToken: string,
  args: readonly ScriptArgument[],
  { nonce = '', most = 0 }: Partial<Taking> = {},
): Promise<Answer & Takes> {
  const { leaseMs, maxInFlight, drainPerSecond } = db.settings;
  const known = db.knownSecrets.get(clientToken);
  const knownSecrets = known?.version ?? '';
  const bounds = inOrder('bounds', { leaseMs, maxInFlight, drainPerSecond, nonce, most, knownSecrets });
  // Redis counts the lease from later on.
  const leaseEnds = momentIn(leaseMs);
  const answer = await askScript<Answer & TakesAnswer>(db, script, clientToken, [...bounds, ...args]);
  const { taken = [], epoch, url, secrets, secretsVersion: version } = answer;
  if (secrets !== undefined && version !== undefined) {
    const [oldest = ''] = db.knownSecrets.keys();
    if (db.knownSecrets.size >= maxKnownSecrets) db.knownSecrets.delete(oldest);
    db.knownSecrets.set(clientToken, { version, fields: secrets });
  }
  const shared = { nonce, epoch, url, leaseEnds, secrets: secrets ?? known?.fields } as Omit<Taken, Own>;
  return { ...answer, taken: taken.map((own) => ({ ...shared, ...own })) };
}
