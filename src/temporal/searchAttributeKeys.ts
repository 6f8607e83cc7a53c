import { defineSearchAttributeKey } from '@temporalio/common';

/** What operators find a workflow by. Never holds a URL or a secret. */
export const clientTokenKey = defineSearchAttributeKey('ClientToken', 'KEYWORD_LIST');
export const platformIdKey = defineSearchAttributeKey('PlatformId', 'KEYWORD_LIST');
export const eventIdKey = defineSearchAttributeKey('EventId', 'KEYWORD_LIST');
/** claiming, retrying, or how it ended: delivered, owed, not_needed, mixed; of catch-up: why it waits. */
export const notificationStateKey = defineSearchAttributeKey('NotificationState', 'KEYWORD');
/** Of the last attempt. */
export const httpStatusKey = defineSearchAttributeKey('HttpStatus', 'INT');

/** One search attribute value takes 2,048 bytes, and a list counts as one. */
const listBytes = 1900;

interface Findable {
  clientToken: string;
  platformId: string;
  eventId: string;
}

/** What events are found by: of each list as many as fit. `cut`: that is not all of them. */
export function listsOf(events: readonly Findable[]) {
  const lists = [
    { key: clientTokenKey, ...fitting(events.map((e) => e.clientToken)) },
    { key: platformIdKey, ...fitting(events.map((e) => e.platformId)) },
    { key: eventIdKey, ...fitting(events.map((e) => e.eventId)) },
  ];
  return {
    lists: lists.map(({ key, value }) => ({ key, value })),
    cut: lists.some((list) => list.cut),
  };
}

function fitting(values: string[]): { value: string[]; cut: boolean } {
  const value: string[] = [];
  let bytes = 0;
  for (const one of new Set(values)) {
    // Without an encoder at hand: no character takes more than three bytes for each of its UTF-16 units.
    bytes += (/^[\x20-\x7e]*$/.test(one) ? one.length : one.length * 3) + 4;
    if (bytes > listBytes) return { value, cut: true };
    value.push(one);
  }
  return { value, cut: false };
}
