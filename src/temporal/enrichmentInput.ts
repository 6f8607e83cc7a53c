/** What the workflow `enrichment` is started with. */
import type { ClaimableEvent, ClaimedEvent } from '../redis/owed/claim.js';

export interface EnrichmentInput {
  events: ClaimedEvent[];
}

/** By release 0.1.0: its workflow claimed the events itself. */
export interface FirstReleaseInput {
  events: ClaimableEvent[];
}
