/** Why an accepted event is unaccounted for. */
export type Problem = keyof typeof problems;

/** Each problem in words. */
export const problems = {
  never_claimed: 'its workflow is closed, but it was never claimed',
  record_missing: 'it was claimed, but has no record',
  waiting_but_not_owed: 'its record waits, but its asset is not owed by this notification',
  owed_without_record: 'it is owed, but has no record',
  owed_but_ended: 'it is owed, but its record has ended',
  owed_without_since: 'it is owed, but its owed-since is missing',
  owed_without_due: 'it is owed, but has no due time',
  due_too_late: 'it is owed, but due later than any schedule allows',
  due_but_not_owed: 'its asset is due, but not owed',
  overdue: 'assets of the client are overdue, and nothing works on them',
  not_in_index: 'the client is owed something, but the sweep does not know it',
  keys_broken:
    'a key of the client cannot be read: it has another type, or a value that the service never writes',
  in_flight_too_long: 'an attempt holds a place for longer than any attempt can last',
} as const;

/** An event that is unaccounted for; without a notification, a client. */
export interface Unaccounted {
  clientToken: string;
  platformId?: string;
  notificationId?: string;
  workflowId?: string;
  problem: Problem;
}
