/** Why an accepted event is unaccounted for. */
export type Problem = keyof typeof problems;

/** The same in words. */
export const problems = {
  never_claimed: 'its workflow is closed and nothing claimed it',
  record_missing: 'it was claimed and has no record',
  waiting_but_not_owed: 'its record waits, but its asset is not owed by it',
  owed_without_record: 'it is owed and has no record',
  owed_but_ended: 'it is owed, but its record has ended',
  owed_without_since: 'it is owed, but nothing says since when',
  owed_without_due: 'it is owed, but never due',
  due_too_late: 'it is owed, but due later than any schedule says',
  due_but_not_owed: 'its asset is due, but not owed',
  overdue: 'what the client is owed is overdue, and nobody works on it',
  not_in_index: 'the client is owed something, and the sweep does not know',
  keys_broken:
    'a key of the client cannot be read: it is of another type, or holds what the service never writes',
  in_flight_too_long: 'an attempt takes up a place for longer than any attempt can last',
} as const;

/** An event that is unaccounted for; without a notification, a client. */
export interface Unaccounted {
  clientToken: string;
  platformId?: string;
  notificationId?: string;
  workflowId?: string;
  problem: Problem;
}
