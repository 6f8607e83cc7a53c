/** Senders that stand in for the real one in a test. */
import type { Place, Sender } from '../../src/outgoing/post.js';

/** @param place gives a place in the stead of the real sender */
export function senderWithPlaces(
  place: (real: Sender, ...asked: Parameters<Sender['place']>) => Promise<Place>,
): (real: Sender) => Sender {
  return (real) => ({
    post: (request) => real.post(request),
    inFlight: () => real.inFlight(),
    waiting: () => real.waiting(),
    close: () => real.close(),
    place: (...asked) => place(real, ...asked),
  });
}

/** A place at which every POST fails, because this machine has no network. */
export function cutOff(place: Place): Place {
  return {
    async post() {
      place.release();
      return { ok: false, error: 'connect', ours: 'network', milliseconds: 1 };
    },
    release: () => place.release(),
  };
}
