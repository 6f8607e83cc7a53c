/** The command is understood but not carried out: the reason goes to stderr, the exit status is 1. */
export class Refused extends Error {
  override name = 'Refused';
}
