/** What a process has learned of Temporal by its calls: /readyz, the metrics and the log ask it, and it counts for `status` and `doctor`. */
import type { Logger } from '../log.js';
import { refusedCalls } from '../redis/records/minutes.js';
import { reasonNamed, reasonOf, reasonsOf, type TemporalReason } from './refusal.js';

/** The sweep, the guard of the worker and its polls repeat sooner what Temporal has refused. */
const keptMs = 20_000;
/** The calls of Temporal's library without which a worker does no task. */
export const workerCalls = /^(Poll|Respond)\w+$|^RecordActivityTaskHeartbeat$|^GetWorkflowExecutionHistory$/;
/** What Temporal's library repeats is told once it has lasted so long, or the library has given it up: that takes so many attempts. */
const mayPassMs = 9000;
const givenUpAfter = 5;
const failure =
  /^temporal_(?:long_)?request_failure_total\{(?=.*\boperation="(\w+)")(?=.*\bstatus_code="(\w+)").*\} (\d+)$/gm;
/** So Temporal also answers where a signal came while a workflow ended: the task is done once more, and nothing is wrong. */
const passing = 'RespondWorkflowTaskCompleted INVALID_ARGUMENT';
const attempt = /^temporal_request_total\{.*\boperation="RespondWorkflowTaskCompleted".*\} (\d+)$/gm;

export class TemporalHealth {
  /** Why and when each call was refused last (`performance.now()`), by its name. */
  readonly #refused = new Map<string, { reason: TemporalReason; atMs: number }>();
  /** How often each call of Temporal's library has failed, by its name and its code; since when such a count rises. */
  #failures = new Map<string, number>();
  readonly #rising = new Map<string, { sinceMs: number; atMs: number }>();
  #attempts = 0;
  /** Counts a refusal for the other processes. */
  count: (field: `${typeof refusedCalls}${string}`) => unknown = () => undefined;

  constructor(readonly log: Logger) {}

  answered(call: string): void {
    if (this.#refused.delete(call)) this.log.info({ call }, 'Temporal takes a call again');
  }

  /** Notes a refusal, and counts it, unless Temporal may have been away for a moment. @param lasts it has not */
  refused(call: string, reason: TemporalReason, lasts = false): void {
    const wasRefused = this.#note(call, reason);
    if (wasRefused || lasts || reason !== 'away') this.count(`${refusedCalls}${call}:${reason}`);
  }

  /** Notes a refusal. The log has a call once, when its refusals begin. @returns whether it had been refused just before */
  #note(call: string, reason: TemporalReason): boolean {
    const wasRefused = performance.now() - (this.#refused.get(call)?.atMs ?? -Infinity) < keptMs;
    this.#refused.set(call, { reason, atMs: performance.now() });
    const [says, todo] = reasonsOf(reason);
    if (!wasRefused) this.log.warn({ call, reason, do: todo }, `Temporal does not take a call: ${says}`);
    return wasRefused;
  }

  /** Looks whether Temporal serves this process. @throws if it does not, or refuses what the process needs */
  async look(ask: () => Promise<unknown>): Promise<void> {
    try {
      await ask();
      const wasAway = this.#refused.get('look')?.reason === 'away';
      this.answered('look');
      if (wasAway) this.#rising.clear();
      for (const [call, { reason }] of this.#refused)
        if (wasAway && reason === 'away') this.#refused.delete(call);
    } catch (err) {
      this.#note('look', reasonOf(err) ?? 'away');
      throw err;
    }
    if (this.refusing().length > 0) throw new Error('Temporal refuses what this process needs');
  }

  /**
   * Notes which calls Temporal has refused to the workers since the last time, by the counters of its library, whose log hides most.
   * @param metrics of the library; empty: they could not be read
   */
  noteCounters(metrics: string): void {
    if (metrics === '') return;
    const before = this.#failures;
    this.#failures = new Map();
    for (const [, call = '', code = '', times] of metrics.matchAll(failure)) {
      const name = `${call} ${code}`;
      if (workerCalls.test(call)) this.#failures.set(name, (this.#failures.get(name) ?? 0) + Number(times));
    }
    const attemptsBefore = this.#attempts;
    this.#attempts = [...metrics.matchAll(attempt)].reduce((sum, [, times]) => sum + Number(times), 0);
    for (const [name, times] of this.#failures) {
      const rise = times - (before.get(name) ?? 0);
      if (name === passing && rise < this.#attempts - attemptsBefore) continue;
      const [call = '', code = ''] = name.split(' ');
      const reason = reasonNamed(code);
      if (rise === 0 || reason === undefined) continue;
      const nowMs = performance.now();
      const last = this.#rising.get(name);
      const sinceMs = last !== undefined && nowMs - last.atMs < keptMs ? last.sinceMs : nowMs;
      this.#rising.set(name, { sinceMs, atMs: nowMs });
      // All pollers of a worker fail together.
      const isGivenUp = rise >= givenUpAfter && !call.startsWith('Poll');
      const lasts = isGivenUp || nowMs - sinceMs > mayPassMs;
      if (lasts || !(name === passing || ['away', 'limit'].includes(reason)))
        this.refused(call, reason, true);
    }
  }

  /** Returns the calls that Temporal refuses to this process now, and why. */
  refusing(calls = /./): { call: string; reason: TemporalReason }[] {
    const sinceMs = performance.now() - keptMs;
    return [...this.#refused].flatMap(([call, { reason, atMs }]) =>
      atMs > sinceMs && calls.test(call) ? { call, reason } : [],
    );
  }
}
