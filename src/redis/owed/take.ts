/** Reads the answers of the gate before every POST, scripts/shared/take.lua: a lease, or why there is none. */

/**
 * The kind of attempt. `first` ignores the entry's due time; `retry`, `drain` and `probe` respect it. `drain` is
 * also bounded by the drain rate, for assets that became owed before an outage ended. `probe` is the only kind that a
 * failing endpoint admits. `redeliver` sends an ended notification, even if there is a newer one.
 */
export type TakeMode = 'first' | 'retry' | 'drain' | 'probe' | 'redeliver';

export type RefusedReason =
  | 'no_registration'
  | 'paused'
  | 'suspended'
  | 'failing'
  | 'leased'
  | 'not_before'
  | 'not_due'
  | 'rate'
  | 'full';

/** An attempt that may be made, under a lease. */
export interface Taken {
  kind: 'taken';
  /** Identifies this attempt among all attempts of its asset. */
  token: string;
  generation: number;
  epoch: number;
  url: string;
  /** Fields of the client's signing-secrets hash, as stored. */
  secrets: Record<string, string>;
}

/** How an earlier attempt ended, if the notification has already ended. */
export interface EndedAttempt {
  status?: number;
  error?: string;
  milliseconds: number;
}

export type Take =
  | Taken
  /**
   * `inMs`: when to ask again; -1 if it waits for a change from outside. `failures`, `last`: the number of failed attempts
   * and the last of them, if the notification is not due.
   */
  | { kind: 'refused'; reason: RefusedReason; inMs: number; failures?: number; last?: EndedAttempt }
  /** Nothing is left to do: it was delivered, superseded or ended otherwise; `state` says how, while its record is kept. */
  | { kind: 'gone'; state?: string; last?: EndedAttempt }
  /** Redis has lost this claim: claim again. */
  | { kind: 'reclaim' };

export interface Bounds {
  /** Longer than any attempt can take. */
  leaseMs: number;
  /** Attempts in flight of a client without its own bound. */
  maxInFlight: number;
  drainPerSecond: number;
}

/** Reads an answer of `take_attempt`; `url` and `secrets` are used only if the asset was taken. */
export function takeOf(answer: readonly unknown[], url: string, secrets: Record<string, string>): Take {
  const [kind, second, third, fourth] = answer as [string, ...unknown[]];
  switch (kind) {
    case 'gone':
      return {
        kind,
        ...(typeof second === 'string' && { state: second }),
        ...(typeof third === 'string' && { last: endedAttemptOf(third) }),
      };
    case 'reclaim':
      return { kind };
    case 'taken':
      return {
        kind,
        token: second as string,
        generation: third as number,
        epoch: fourth as number,
        url,
        secrets,
      };
    default:
      return {
        kind: 'refused',
        reason: kind as RefusedReason,
        inMs: second as number,
        ...(typeof third === 'number' && { failures: third }),
        ...(typeof fourth === 'string' && { last: endedAttemptOf(fourth) }),
      };
  }
}

function endedAttemptOf(line: string): EndedAttempt {
  const { status, error, milliseconds } = JSON.parse(line) as EndedAttempt;
  return { milliseconds, ...(status !== undefined && { status }), ...(error !== undefined && { error }) };
}

/** Reads the fields of a hash from a script's answer. */
export function fieldsOf(flat: readonly string[]): Record<string, string> {
  const fields: Record<string, string> = {};
  for (let i = 0; i + 1 < flat.length; i += 2) fields[flat[i] as string] = flat[i + 1] as string;
  return fields;
}
