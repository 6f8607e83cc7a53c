import type { NotificationRecord } from '../../../redis/notifications/notifications.js';
import { fromNow } from '../../terminal/moment.js';

/** Says when the next attempt is made, and why not sooner where another rule than the retry delay decides it. */
export function describeNext({ waitingReason, nextAttemptAt }: NotificationRecord): string | undefined {
  switch (waitingReason) {
    case undefined:
      return undefined;
    case 'due':
      return 'now';
    case 'in_flight':
      return 'under way now';
    case 'retry':
      return fromNow(nextAttemptAt);
    case 'failing':
      return `probe ${fromNow(nextAttemptAt)}: the endpoint is failing`;
    case 'not_before':
      return `${fromNow(nextAttemptAt)}: the endpoint asked for it (Retry-After)`;
    case 'paused':
    case 'suspended':
      return `not while it is ${waitingReason}`;
    case 'run_paused':
      return 'not while its run is held';
    case 'no_registration':
      return 'not before a URL is registered';
  }
}
