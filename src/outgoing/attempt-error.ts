/** Why an attempt failed, in the words of the contract. */
export type AttemptError =
  | 'dns'
  | 'connect'
  | 'tls'
  | 'timeout'
  | 'http_status'
  | 'redirect'
  | 'blocked_address'
  | 'protocol';

/** An attempt that failed before there was an answer. `detail` is made of fixed words and error codes only. */
export class AttemptFailed extends Error {
  override name = 'AttemptFailed';
  constructor(
    readonly error: AttemptError,
    readonly detail: string,
  ) {
    super(`${error}: ${detail}`);
  }
}
