import { notificationId } from '../../src/ids.js';
import type { ArrivedEvent } from '../../src/redis/owed/claim.js';

type Given = 'clientToken' | 'platformId' | 'eventId' | 'segments';

/** Makes an event as the API passes it to the claim: live and with a notification, unless `more` says otherwise. */
export function arrivedEvent(
  event: Pick<ArrivedEvent, Given>,
  more: Partial<Pick<ArrivedEvent, 'priority' | 'notify'>> = {},
): ArrivedEvent {
  return {
    ...event,
    notificationId: notificationId(event),
    priority: 'live',
    notify: true,
    acceptedAt: Date.now(),
    ...more,
  };
}
