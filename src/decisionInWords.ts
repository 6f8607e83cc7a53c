import type { AssetExplanation } from './redis/owed/decisions.js';

/** Describes the decision about an asset's last event, for a person. */
export function decisionInWords({ lastEvent }: AssetExplanation): string {
  switch (lastEvent?.decision) {
    case undefined:
      return 'nothing is known of any event in the last 14 days';
    case 'queued':
      return 'queued: it brought a segment that the asset did not have';
    case 'not_needed':
      return 'nothing sent for it: another event brought the same segments first';
    case 'no_new_segments':
      return 'nothing sent: the asset had all of its segments';
    case 'not_registered':
      return 'nothing sent: the client had no URL';
    case 'silent':
      return 'nothing sent: the platform asked for silence (notify: false)';
  }
}
