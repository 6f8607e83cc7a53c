/** Judges a receiver by its answers to a check, with advice for its engineers. */
import type { AttemptError, PostResult } from '../../outgoing/post.js';

export interface Judged {
  verdict: 'ok' | 'warn' | 'fail';
  advice: string;
}

const ok: Judged = { verdict: 'ok', advice: 'Nothing to do.' };
const fail = (advice: string): Judged => ({ verdict: 'fail', advice });
const warn = (advice: string): Judged => ({ verdict: 'warn', advice });

const ourFailure = warn(
  'The service could not send it because of a problem on its side, not of your receiver: check again later.',
);

/**
 * Judges the answer to a notification that the receiver must accept.
 * @param slowMs an answer that takes longer is a warning
 */
export function judgeTaken(result: PostResult, slowMs = Number.POSITIVE_INFINITY): Judged {
  if (result.ours !== undefined) return ourFailure;
  if (!result.ok) return fail(whyNotTaken(result));
  if (result.milliseconds <= slowMs) return ok;
  return warn(
    'Answer 2xx as soon as the notification is stored, and work afterwards: a late answer is a failed attempt.',
  );
}

/** Judges the second answer to a notification that was sent twice. */
export function judgeRepeat(first: PostResult, second: PostResult): Judged {
  if (second.ours !== undefined) return ourFailure;
  if (first.ok && !second.ok) {
    return fail(
      'Answer 2xx to a webhook-id that you already have, and do nothing: a notification can arrive twice.',
    );
  }
  return judgeTaken(first.ok ? second : first);
}

/** Judges the answer to a notification that arrives in pieces. */
export function judgeSlow(good: PostResult, slow: PostResult): Judged {
  if (slow.ours !== undefined) return ourFailure;
  if (good.ok && !slow.ok) {
    return fail(
      'Read the body to its end before you verify it: it can arrive in pieces, over more than a second.',
    );
  }
  return judgeTaken(slow);
}

/** Judges the answer to a notification that the receiver must refuse. @param remedy the advice if it was accepted */
export function judgeRefused(result: PostResult, remedy: string): Judged {
  if (result.ours !== undefined) return ourFailure;
  if (result.ok) return fail(remedy);
  const { status } = result;
  if (status !== undefined && status >= 400 && status < 500) return ok;
  if (status !== undefined) {
    return warn(`Answer 401 when you refuse a notification: ${status} looks like an error of the receiver.`);
  }
  return warn(`Answer 401 when you refuse a notification: there was no answer (${result.error}).`);
}

function whyNotTaken({ status, error }: PostResult): string {
  switch (error) {
    case 'http_status':
      return status !== undefined && status >= 500
        ? 'Look for this webhook-id in the receiver’s log: the receiver failed while handling the notification.'
        : 'Answer 2xx to a valid signature. Compare the receiver’s secret with the client’s, and verify the raw body.';
    case 'redirect':
      return 'Register the URL that the redirect leads to: redirects are never followed.';
    case undefined:
      return 'Answer 2xx.';
    default:
      return adviceOnConnecting[error];
  }
}

const adviceOnConnecting: Record<Exclude<AttemptError, 'http_status' | 'redirect'>, string> = {
  dns: 'Put the host name of the URL into DNS: it has no address, or its name server does not answer.',
  connect: 'Start the receiver and let the internet reach its port: no connection could be made.',
  tls: 'Use a certificate that is valid for the host name, with the whole chain: the TLS handshake failed.',
  timeout: 'Answer 2xx as soon as the notification is stored: there was no answer in time.',
  blocked_address:
    'Give the host of the URL a public address: notifications are sent to public addresses only.',
  protocol: 'Answer in HTTP/1.1: the answer, if any, was not valid.',
};
