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

/** What the scripts and TypeScript share: scripts read it as `const`, in snake case (src/redis/connection/library.ts). */
export const shared = {
  /** While the clocks of Redis and of its caller differ by more, nothing ends for good. */
  clocksAgreeMs: 300_000,
  recordKeptDays,
  /** Text: Lua would format a number in every call. */
  recordKeptSeconds: String(recordKeptDays * 86_400),
  /** The newest ended notifications of a client that are listed. */
  listedAtMost: 10_000,
  /** The number of retries that an event's workflow times, some minutes; catch-up times the later ones. */
  shortRetries: 3,
  /** The name of the workflow of a notification that has none. */
  withoutWorkflow: '-',
  longestAttemptMs: 60_000,
  /** How much longer a lease is than an attempt: for the wait before it, the resolver and settling. */
  besideAttemptMs: 5000,
  /** How long a publisher's request for another URL waits, and for how long its answer is shown. */
  urlRequestMs: 14 * dayMs,
  /** What stands before the fingerprints of an asset's known segments (known.lua). */
  knownHeaderBytes: 30,
  /** 48 bits: with 200 segments on one asset, one new segment in 10^12 would be mistaken for a known one. */
  fingerprintBytes: 6,
};
