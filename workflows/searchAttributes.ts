import { defineSearchAttributeKey } from '@temporalio/common';

/** What operators find a workflow by. Never holds a URL or a secret. */
export const clientTokenKey = defineSearchAttributeKey('ClientToken', 'KEYWORD_LIST');
export const platformIdKey = defineSearchAttributeKey('PlatformId', 'KEYWORD_LIST');
export const eventIdKey = defineSearchAttributeKey('EventId', 'KEYWORD_LIST');
/** claiming, retrying, or how it ended: delivered, owed, not_needed, mixed; of catch-up: why it waits. */
export const notificationStateKey = defineSearchAttributeKey('NotificationState', 'KEYWORD');
/** Of the last attempt. */
export const httpStatusKey = defineSearchAttributeKey('HttpStatus', 'INT');
