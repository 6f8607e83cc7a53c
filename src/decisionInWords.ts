import type { AssetExplanation, Decision } from './redis/owed/decisions.js';

/** Describes the decision about an asset's last event, for a person. */
export function decisionInWords({ lastEvent }: AssetExplanation): string {
  if (lastEvent === undefined) return 'nothing is known of any event in the last 14 days';
  if (lastEvent.decision === 'queued') return 'queued: it brought a segment that the asset did not have';
  return `nothing sent: ${whyNotSent[lastEvent.decision]}`;
}

/** The reasons why an event made no notification, for a person. */
export const whyNotSent: Record<Exclude<Decision, 'queued'>, string> = {
  not_needed: 'another event brought the same segments first',
  no_new_segments: 'the asset had all of its segments',
  not_registered: 'the client had no URL',
  silent: 'the platform asked for silence (notify: false)',
};
