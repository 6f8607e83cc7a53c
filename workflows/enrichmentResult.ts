import { workflowInfo } from '@temporalio/workflow';
import type { Outcome, Report } from '../src/delivery/outcome.js';
import type { ClaimedEvent } from '../src/redis/owed/claim.js';
import { workflowIds } from '../src/temporal/workflowIds.js';

/** The result of one event, or of a group, as the Temporal UI shows it. */
export type EnrichmentResult = OneResult | GroupResult;

interface OneResult {
  state: Outcome['state'];
  status?: number;
  milliseconds?: number;
  reason?: string;
  error?: string;
  failed_attempts?: number;
  /** Id of the workflow that delivers it: `catch-up/<client token>`. */
  handed_to?: string;
}

interface GroupResult {
  events: number;
  delivered: number;
  /** Events by every other state. */
  [state: string]: unknown;
  worst_status?: number;
  slowest_milliseconds?: number;
  /** The first hundred that were not delivered. */
  not_delivered?: (Named & OneResult)[];
}

interface Named {
  client_token: string;
  platform_id: string;
  notification_id: string;
}

const maxNamed = 100;

/** From the least finished state to the most finished. */
const states: readonly Outcome['state'][] = [
  'waiting',
  'failed',
  'cancelled',
  'unknown',
  'not_needed',
  'superseded',
  'delivered',
];

/** Returns the least finished state of the events that were not delivered; `delivered` if all were. */
export function stateOf(rest: readonly Outcome[]): Outcome['state'] {
  return states.find((state) => rest.some((outcome) => outcome.state === state)) ?? 'delivered';
}

/** Returns the highest HTTP status of all events; undefined if no receiver answered. */
export function worstStatusOf(report: Report): number | undefined {
  const all = [report.status, ...report.rest.map(({ outcome }) => outcome.status)];
  const known = all.filter((status) => status !== undefined);
  return known.length === 0 ? undefined : Math.max(...known);
}

/** Makes an enrichment's result. */
export function resultOf(events: readonly ClaimedEvent[], report: Report): EnrichmentResult {
  const { delivered, status, milliseconds, rest } = report;
  if (events.length === 1) {
    const [other] = rest;
    return other === undefined
      ? { state: 'delivered', status, milliseconds }
      : shown(events[0], other.outcome);
  }
  const result: GroupResult = { events: events.length, delivered };
  for (const { outcome } of rest) result[outcome.state] = Number(result[outcome.state] ?? 0) + 1;
  const worst = worstStatusOf(report);
  if (worst !== undefined) result.worst_status = worst;
  if (milliseconds !== undefined) result.slowest_milliseconds = milliseconds;
  const named = rest
    .filter(({ outcome }) => outcome.state === 'waiting' || outcome.state === 'failed')
    .slice(0, maxNamed)
    .map(({ index, outcome }) => ({
      ...nameOf(events[index] as ClaimedEvent),
      ...shown(events[index], outcome),
    }));
  if (named.length > 0) result.not_delivered = named;
  return result;
}

function nameOf({ clientToken, platformId, notificationId }: ClaimedEvent): Named {
  return { client_token: clientToken, platform_id: platformId, notification_id: notificationId };
}

function shown(event: ClaimedEvent | undefined, outcome: Outcome): OneResult {
  const { state, status } = outcome;
  if (outcome.state !== 'waiting') return { state, status, milliseconds: outcome.milliseconds };
  const { reason, error, failures } = outcome;
  return {
    ...{ state, status, reason, error },
    failed_attempts: failures > 0 ? failures : undefined,
    handed_to: event && workflowIds(workflowInfo().taskQueue).catchUp(event.clientToken),
  };
}
