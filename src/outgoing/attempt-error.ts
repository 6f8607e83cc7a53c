import { dnsCode } from './names/resolve.js';
import { type Ours, oursByCode } from './ours.js';

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
    /** Set where the failure is this process's or host's, and says nothing of the receiver. */
    readonly ours?: Ours,
  ) {
    super(`${error}: ${detail}`);
  }
}

/** Whether the server closed a kept connection while a request was on its way to it. */
export function saysStale(error: Error): boolean {
  return staleCodes.has(dnsCode(error) ?? '');
}

/** Translates the error of a connection on which a request was or should have been sent. */
export function attemptFailed(error: Error): AttemptFailed {
  if (error instanceof AttemptFailed) return error;
  const code = dnsCode(error) ?? 'unknown error';
  // With TLS 1.3 a server judges the client only after the client's handshake is complete.
  if (code.startsWith('ERR_SSL_') || code === 'EPROTO') return new AttemptFailed('tls', code);
  if (code.startsWith('UND_ERR_INVALID')) return new AttemptFailed('protocol', 'the request cannot be sent');
  if (staleCodes.has(code)) return new AttemptFailed('protocol', `closed without an answer (${code})`);
  return new AttemptFailed('protocol', `not a valid HTTP answer (${code})`, oursByCode(code));
}

const staleCodes = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);
