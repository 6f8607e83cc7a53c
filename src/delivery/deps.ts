import type { DeliverySettings } from '../config.js';
import type { Logger } from '../log.js';
import type { Notices } from '../notices/notices.js';
import { ourFailures } from '../outgoing/ours.js';
import type { Sender } from '../outgoing/post.js';
import type { Db } from '../redis/connection/db.js';
import type { ArrivedEvent } from '../redis/owed/claim.js';
import type { AttemptHistory } from '../redis/records/attemptHistory.js';
import type { SecretBox } from '../redis/records/secretBox.js';
import type { CatchUps } from '../temporal/catchUps.js';
import type { Tracing } from '../tracing.js';

/** The dependencies of deliveries. */
export interface DeliveryDeps {
  db: Db;
  sender: Sender;
  secretBox: SecretBox;
  settings: DeliverySettings;
  log: Logger;
  metrics: DeliveryMetrics;
  /** The counts behind the console's plots. */
  history: Pick<AttemptHistory, 'count'>;
  catchUps: Pick<CatchUps, 'signal' | 'wake'>;
  notices: Pick<Notices, 'tell'>;
  /** Undefined: tracing is off. */
  tracing?: Tracing | undefined;
}

type Priority = ArrivedEvent['priority'];

/** `secrets`: those of the client cannot be decrypted; `unexpected`: any other error before the POST. */
export const ownFailureCauses = [...ourFailures, 'secrets', 'unexpected'] as const;
export type OwnFailureCause = (typeof ownFailureCauses)[number];

export interface DeliveryMetrics {
  /** Counts an attempt that a receiver answered, or failed to. */
  attempted(result: { ok: boolean; error?: string }, milliseconds: number): void;
  /** Counts an attempt that this process could not make. */
  ownFailure(cause: string): void;
  /** Counts a notification by the state in which it ended. */
  ended(state: string): void;
  /** Times from an event's acceptance to the beginning of its notification's first attempt. */
  firstAttempted(priority: Priority, milliseconds: number): void;
  /** Times from an event's acceptance to its delivery; redeliveries are not included. */
  delivered(priority: Priority, milliseconds: number): void;
  /** Counts a registration by the state that it entered. */
  entered(state: string): void;
}
