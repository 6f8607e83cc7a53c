import type { DeliverySettings } from '../delivery/settings.js';
import { recordKeptMs } from '../redis/connection/keys.js';
import type { OwedOverview } from '../redis/owed/owedClients.js';
import type { Standing } from '../redis/owed/standing.js';
import type { Problem } from './problem.js';

/** The sweep picks up overdue assets within 2 minutes (contract, section 3). */
export const pickedUpWithinMs = 120_000;

/** Returns the longest delay of any schedule, plus a minute: `Retry-After` may be 24 h ahead. */
export function longestDelayMs(settings: DeliverySettings): number {
  return Math.max(86_400_000, settings.leaseMs, ...settings.retryScheduleMs.map((ms) => ms * 1.1)) + 60_000;
}

/** Returns the problem between a record and what is owed; undefined if they agree, or neither exists. */
export function disagreementOf(
  standing: Standing,
  now: number,
  settings: DeliverySettings,
): Problem | undefined {
  const { state, owed, owedSince, due } = standing;
  if (!owed) return state === 'waiting' ? 'waiting_but_not_owed' : undefined;
  if (state === undefined) return 'owed_without_record';
  if (state !== 'waiting') return 'owed_but_ended';
  if (owedSince === undefined) return 'owed_without_since';
  if (due === undefined) return 'owed_without_due';
  return due > now + longestDelayMs(settings) ? 'due_too_late' : undefined;
}

/** Returns whether a listed notification without a record is so old that the record was removed in time. */
export function isAgedOut(acceptedAt: number, now: number): boolean {
  return now - acceptedAt >= recordKeptMs;
}

/** Returns whether something owed is overdue, and catch-up has not planned for longer than the sweep needs. */
export function isForgotten({ owed, overdueMs, plannedMsAgo }: OwedOverview): boolean {
  const idle = plannedMsAgo < 0 || plannedMsAgo > pickedUpWithinMs;
  return owed > 0 && overdueMs > pickedUpWithinMs && idle;
}
