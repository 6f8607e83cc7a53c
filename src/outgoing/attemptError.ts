import { dnsCode } from './names/resolve.js';
import { type Ours, oursByCode } from './ours.js';

/** The error class of a failed attempt, in the contract's words. */
export const attemptErrors = [
  'dns',
  'connect',
  'tls',
  'timeout',
  'http_status',
  'redirect',
  'blocked_address',
  'protocol',
] as const;
export type AttemptError = (typeof attemptErrors)[number];

/** An attempt that failed before there was an answer. `detail` is made of fixed words and error codes only. */
export class AttemptFailed extends Error {
  override name = 'AttemptFailed';
  constructor(
    readonly error: AttemptError,
    readonly detail: string,
    /** Set if the failure is an own failure of this process or host, not the receiver's. */
    readonly ours?: Ours,
  ) {
    super(`${error}: ${detail}`);
  }
}

/** Returns whether the server closed a kept connection while a request was on its way. */
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
