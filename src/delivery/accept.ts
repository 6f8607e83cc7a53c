/** The way of an event into the service: claimed, on Redis' disk, answered. Its delivery and its workflow follow. */

import type { Durability } from '../redis/connection/durable.js';
import { type ArrivedEvent, type Claim, type ClaimedEvent, withoutWorkflow } from '../redis/owed/claim.js';
import type { Engine } from './engine.js';
import type { Outbox } from './outbox.js';
import { deliveryOf } from './work.js';

/** This process holds as much as it may. Nothing of the event was taken. */
export class TooBusy extends Error {
  override name = 'TooBusy';
}

export interface AcceptDeps {
  claim(event: ArrivedEvent): Promise<Claim>;
  durability: Durability;
  outbox: Outbox;
  /** Where a worker shares this process: deliveries begin at once. */
  engine?: Engine;
}

export interface Accepting {
  /**
   * Resolves once what was decided is on Redis' disk. The same event, given again meanwhile, gets the same answer.
   * @throws TooBusy, and what Redis throws: the event may have been claimed then, and can be given again
   */
  accept(event: ArrivedEvent): Promise<Claim>;
  /** Events that wait for Redis. */
  underWay(): number;
}

/** Beyond it Redis answers more slowly than events come. */
const underWayAtMost = 10_000;

export function createAccepting(deps: AcceptDeps): Accepting {
  const underWay = new Map<string, Promise<Claim>>();

  async function claimAndBegin(event: ArrivedEvent): Promise<Claim> {
    const ticket = event.notify ? deps.outbox.reserve(event) : undefined;
    let claim: Claim;
    try {
      const group = ticket === undefined ? withoutWorkflow : ticket.group;
      claim = await deps.claim(group === undefined ? event : { ...event, group });
    } catch (err) {
      ticket?.leave();
      throw err;
    }
    if (claim.kind !== 'claimed') {
      ticket?.leave();
      return claim;
    }
    const { notify: _, group: __, ...rest } = event;
    const claimed: ClaimedEvent = { ...rest, claim: claim.claim };
    void deps.engine?.begin(deliveryOf(claimed), claim.take);
    if (ticket === undefined) deps.engine?.forget([event.notificationId]);
    try {
      await deps.durability.reached();
    } finally {
      ticket?.fill(claimed);
    }
    return claim;
  }

  return {
    accept(event) {
      const known = underWay.get(event.notificationId);
      if (known !== undefined && event.notify) return known;
      if (underWay.size >= underWayAtMost) {
        return Promise.reject(new TooBusy('more events wait for Redis than this process holds'));
      }
      const accepted = claimAndBegin(event).finally(() => underWay.delete(event.notificationId));
      underWay.set(event.notificationId, accepted);
      return accepted;
    },
    underWay: () => underWay.size,
  };
}
