import type { NotificationRecord } from '../../../redis/notifications/notifications.js';
import { fromNow } from '../../terminal/moment.js';

/** Describes when the next attempt is made, and the reason if another rule than the retry delay decides it. */
export function describeNext({ waitingReason, nextAttemptAt }: NotificationRecord): string | undefined {
  switch (waitingReason) {
    case undefined:
      return undefined;
    case 'due':
      return 'now';
    case 'rate':
    case 'full':
      return 'in its turn';
    case 'in_flight':
      return 'under way now';
    case 'retry':
      return fromNow(nextAttemptAt);
    case 'failing':
      return `probe ${fromNow(nextAttemptAt)}: the endpoint is failing`;
    case 'not_before':
      return `${fromNow(nextAttemptAt)}: the endpoint asked to wait (Retry-After)`;
    case 'paused':
    case 'suspended':
      return `not while it is ${waitingReason}`;
    case 'no_registration':
      return 'once a URL is registered';
  }
}
