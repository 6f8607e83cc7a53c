import { findNotification, type NotificationRecord } from '../../../redis/notifications/notifications.js';
import type { Operator } from '../../operator.js';
import { Refused } from '../../refused.js';

/** @throws Refused if there is no such notification */
export async function requireNotification(operator: Operator, id: string): Promise<NotificationRecord> {
  const found = await findNotification(await operator.db(), id);
  if (found === undefined) throw unknownNotification(id);
  return found;
}

export function unknownNotification(id: string): Refused {
  return new Refused(`There is no notification ${id}; records are kept for 14 days after their end.`);
}
