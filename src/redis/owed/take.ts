/** Reads the answers of the one gate before every POST, scripts/shared/take.lua: a lease, or why there is none. */

/**
 * Who asks for the attempt: `first` ignores the entry's due time, `retry`, `drain` and `probe` keep to it; `drain` is
 * also held to the drain rate for what waits since before an outage ended, `probe` is the only one that a failing
 * endpoint admits, `redeliver` sends what has ended, whatever is newer.
 */
export type TakeMode = 'first' | 'retry' | 'drain' | 'probe' | 'redeliver';

export type RefusedReason =
  | 'no_registration'
  | 'paused'
  | 'suspended'
  | 'run_paused'
  | 'failing'
  | 'leased'
  | 'not_before'
  | 'not_due'
  | 'rate'
  | 'full';

/** An attempt that may be made, under a lease. */
export interface Taken {
  kind: 'taken';
  /** Names this attempt among all attempts of its asset. */
  token: string;
  generation: number;
  epoch: number;
  url: string;
  /** Fields of the client's signing-secrets hash, as stored. */
  secrets: Record<string, string>;
}

/** How an earlier attempt ended, where a notification is found ended. */
export interface EndedAttempt {
  status?: number;
  error?: string;
  milliseconds: number;
}

export type Take =
  | Taken
  /**
   * `inMs`: when to ask again; -1 where only a change from outside helps. `failures`, `last`: the failed attempts so far and
   * the last of them, where it is not due.
   */
  | { kind: 'refused'; reason: RefusedReason; inMs: number; failures?: number; last?: EndedAttempt }
  /** Nothing to do any more: delivered, superseded or ended some other way, which `state` says while its record is kept. */
  | { kind: 'gone'; state?: string; last?: EndedAttempt }
  /** Redis has gone back to a moment before this claim: claim again. */
  | { kind: 'reclaim' };

export interface Bounds {
  /** Longer than any attempt takes. */
  leaseMs: number;
  /** Attempts at once of a client that has no bound of its own. */
  maxInFlight: number;
  drainPerSecond: number;
}

/** Reads an answer of `take_attempt`; `url` and `secrets` count only where the asset was taken. */
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

/** Reads the fields of a hash as a script answers them. */
export function fieldsOf(flat: readonly string[]): Record<string, string> {
  const fields: Record<string, string> = {};
  for (let i = 0; i + 1 < flat.length; i += 2) fields[flat[i] as string] = flat[i + 1] as string;
  return fields;
}
