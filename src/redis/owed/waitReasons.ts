/**
 * Why something is not sent now: one vocabulary for all (`standing` in scripts/take.lua). Workflows read it, so this file imports
 * nothing. docs/reference/delivery.md says when each ends.
 */

/** The situation of a client (operator/situations.ts says what an operator does in it). */
export type Situation =
  | 'late'
  | 'suspended'
  | 'failing'
  | 'not_before'
  | 'failed'
  | 'retrying'
  | 'draining'
  | 'held'
  | 'paused'
  | 'no_url'
  | 'clear';

interface Wait {
  /** For people, after the state: `waiting: its turn comes now`. */
  says: string;
  /** Of the client whose next notification waits for this reason; a `clear` one whose attempts fail is `retrying`. */
  situation: Situation;
  /** True if the notification only waits for a place: its workflow waits for that. */
  isForPlace: boolean;
}

/** `due`, `in_flight`, `retry` and `quiet` concern one notification, the others the whole client. */
export const waits = {
  due: { says: 'its turn comes now', situation: 'clear', isForPlace: true },
  in_flight: { says: 'an attempt is under way', situation: 'clear', isForPlace: false },
  retry: { says: 'it is tried again at its own time', situation: 'clear', isForPlace: false },
  quiet: {
    says: 'the quiet period of the site gathers events of its video',
    situation: 'clear',
    isForPlace: false,
  },
  failing: {
    says: 'the endpoint is failing, and one notification at a time tries it',
    situation: 'failing',
    isForPlace: false,
  },
  not_before: {
    says: 'the endpoint asked to wait (Retry-After)',
    situation: 'not_before',
    isForPlace: false,
  },
  rate: {
    says: 'its turn comes as fast as the rate of the site allows',
    situation: 'draining',
    isForPlace: true,
  },
  full: { says: 'its turn comes when an attempt under way ends', situation: 'draining', isForPlace: true },
  paused: { says: 'deliveries are paused', situation: 'paused', isForPlace: false },
  suspended: {
    says: 'the endpoint is suspended until you resume',
    situation: 'suspended',
    isForPlace: false,
  },
  no_registration: { says: 'no URL is registered', situation: 'no_url', isForPlace: false },
} as const satisfies Record<string, Wait>;
export type WaitReason = keyof typeof waits;
export const waitReasons = Object.keys(waits) as WaitReason[];
