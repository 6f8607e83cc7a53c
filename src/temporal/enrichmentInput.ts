import type { ClaimableEvent, ClaimedEvent } from '../redis/owed/claim.js';

/** The input of the workflow `enrichment`. */
export interface EnrichmentInput {
  events: ClaimedEvent[];
}

/** The input that release 0.1.0 wrote: its workflow claimed the events itself. */
export interface FirstReleaseInput {
  events: ClaimableEvent[];
}
