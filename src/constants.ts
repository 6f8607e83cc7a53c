/**
 * Times and bounds that are the same in every installation. `readConfig` adds `constants` to the settings; a test replaces
 * one in the settings that it hands in.
 */

const secondMs = 1000;
const minuteMs = 60 * secondMs;
const dayMs = 24 * 60 * minuteMs;

export const constants = {
  /** A receiver's own deployment costs fewer failures in a row; a higher number would keep a dead receiver busy. */
  failingAfter: 5,
  /** A receiver that restarts waits for seconds. A receiver that stays down gets one request in 5 minutes. */
  probeScheduleMs: [10 * secondMs, 30 * secondMs, minuteMs, 2 * minuteMs, 5 * minuteMs],
  /** A receiver that refuses one notification for longer than a weekend and three working days will not accept it. */
  retryWindowMs: 5 * dayMs,
  /** As long as the retries of one notification: a weekend must not suspend an endpoint. */
  suspendAfterMs: 5 * dayMs,
  /** The fewest failed attempts since its last success after which an endpoint is suspended (contract, section 3). */
  suspendMinimumAttempts: 20,
  /** Calls of one network without a known token, in each process: one takes a quarter of a millisecond of the event loop. */
  strangersPerSecond: 300,
  /** How long a 429 is held: a caller who repeats refused calls at once takes nobody's time (api/steps/pace.ts). */
  heldRefusalMs: secondMs,
  /** How long an account's call that reads many records waits for those before it, in one process (api/steps/pace.ts). */
  longestTurnMs: 10 * secondMs,
  /** Enough for several thousand requests a second to a receiver that answers in 100 ms (docs/capacity.md). */
  connectionsPerOrigin: 512,
};

export type Constants = typeof constants;

/** How long receivers keep the ids of notifications (docs/guides/receivers.md, duty 3). */
export const idKeptDays = 30;
/** How long the record of an ended notification is kept: two weeks in which a publisher may look for it. */
export const recordKeptDays = 14;
