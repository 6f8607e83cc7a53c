/** What was asked is understood but not done: the reason goes to stderr, the exit status is 1. */
export class Refused extends Error {
  override name = 'Refused';
}
