/**
 * Why something is not sent now: one vocabulary for all (`standing` in scripts/take.lua). Workflows read it, so this file imports
 * nothing. docs/reference/delivery.md says when each ends.
 */

interface Wait {
  /** For people, after the state: `waiting: its turn comes now`. */
  says: string;
  /** Of the client whose next notification waits for this reason (operator/situations.ts); a `clear` one whose attempts fail is `retrying`. */
  situation: string;
  /**
   * What ends it: a place, for which its workflow waits; a time or an attempt's end; a change from outside, before which the sweep
   * leaves the client alone.
   */
  endsBy: 'place' | 'time' | 'change';
}

/** `due`, `in_flight`, `retry` and `quiet` concern one notification, the others the whole client. */
export const waits = {
  due: { says: 'its turn comes now', situation: 'clear', endsBy: 'place' },
  in_flight: { says: 'an attempt is under way', situation: 'clear', endsBy: 'time' },
  retry: { says: 'it is tried again at its own time', situation: 'clear', endsBy: 'time' },
  quiet: {
    says: 'the quiet period of the site gathers events of its video',
    situation: 'clear',
    endsBy: 'time',
  },
  failing: {
    says: 'the endpoint is failing, and is probed with one notification at a time',
    situation: 'failing',
    endsBy: 'time',
  },
  not_before: { says: 'the endpoint asked to wait (Retry-After)', situation: 'not_before', endsBy: 'time' },
  rate: {
    says: 'its turn comes as fast as the rate of the site allows',
    situation: 'draining',
    endsBy: 'place',
  },
  full: { says: 'its turn comes when an attempt under way ends', situation: 'draining', endsBy: 'place' },
  paused: { says: 'deliveries are paused', situation: 'paused', endsBy: 'change' },
  suspended: { says: 'the endpoint is suspended until you resume', situation: 'suspended', endsBy: 'change' },
  no_registration: { says: 'no URL is registered', situation: 'no_url', endsBy: 'change' },
} as const satisfies Record<string, Wait>;
export type WaitReason = keyof typeof waits;
export const waitReasons = Object.keys(waits) as WaitReason[];
