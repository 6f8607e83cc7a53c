import { type ArrivedEvent, type Claim, type ClaimedEvent, withoutWorkflow } from '../redis/owed/claim.js';
import type { Claimed, ClaimQueue } from './claimQueue.js';
import type { Engine } from './engine.js';
import type { Outbox } from './outbox/outbox.js';
import { toDelivery } from './work.js';

/** Thrown when this process holds as many events as it may. The event was not accepted. */
export class TooBusy extends Error {
  override name = 'TooBusy';
}

export interface AcceptDeps {
  claims: ClaimQueue;
  outbox: Outbox;
  /** Set if a worker shares this process: deliveries begin immediately. */
  engine?: Engine | undefined;
}

/** With more events Redis answers more slowly than events arrive. */
const maxUnderWay = 10_000;

/** Accepts events: claims each and begins its delivery; the answer and the workflow wait until the claim is on Redis' disk. */
export class Accepting {
  readonly #underWay = new Map<string, Promise<Claim>>();

  constructor(readonly deps: AcceptDeps) {}

  /**
   * Resolves once the decision about an event is on Redis' disk. The same event, given again meanwhile, gets the same answer.
   * @throws TooBusy, and errors of Redis: the event may then have been claimed, and can be sent again
   */
  accept(event: ArrivedEvent): Promise<Claim> {
    const known = this.#underWay.get(event.notificationId);
    if (known !== undefined && event.notify) return known;
    if (this.#underWay.size >= maxUnderWay) {
      return Promise.reject(new TooBusy('more events wait for Redis than this process holds'));
    }
    const accepted = this.#claimAndBegin(event).finally(() => this.#underWay.delete(event.notificationId));
    this.#underWay.set(event.notificationId, accepted);
    return accepted;
  }

  /** Returns how many events wait for Redis. */
  underWay(): number {
    return this.#underWay.size;
  }

  async #claimAndBegin(event: ArrivedEvent): Promise<Claim> {
    const { claims, outbox, engine } = this.deps;
    const ticket = event.notify ? outbox.reserve(event) : undefined;
    let claimed: Claimed;
    try {
      const group = ticket === undefined ? withoutWorkflow : ticket.group;
      claimed = await claims.claim(group === undefined ? event : { ...event, group });
    } catch (err) {
      ticket?.leave();
      throw err;
    }
    const { claim, safe } = claimed;
    if (claim.kind !== 'claimed') {
      ticket?.leave();
      // Also if nothing is owed: that may rely on a claim of another event that is not on disk yet.
      await safe;
      return claim;
    }
    const { notify: _, group: __, ...rest } = event;
    const owed: ClaimedEvent = { ...rest, claim: claim.claim };
    void engine?.begin(toDelivery(owed), claim.take);
    if (ticket === undefined) engine?.forget([event.notificationId]);
    try {
      await safe;
    } finally {
      ticket?.fill(owed);
    }
    return claim;
  }
}
