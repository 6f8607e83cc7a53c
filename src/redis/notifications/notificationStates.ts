export const notificationStates = [
  'waiting',
  'delivered',
  'superseded',
  'not_needed',
  'failed',
  'cancelled',
] as const;
export type NotificationState = (typeof notificationStates)[number];
