/** The five requests of a receiver’s check, how they are sent, and the verdict on each answer. */
import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import { idFromBytes } from '../../ids.js';
import { hidden, notificationRequest } from '../../outgoing/notification.js';
import type { AttemptError, PostResult, Sender } from '../../outgoing/post.js';

/** The five sends of a check; `twice` is `good` sent once more, with the same id. */
export type Sent = 'good' | 'wrong_signature' | 'old_timestamp' | 'twice' | 'slow';

export interface Exchange {
  request: { headers: Record<string, string>; body: string };
  result: PostResult;
}

/** Older than any receiver should accept: libraries of Standard Webhooks accept 5 minutes. */
const oldMs = 3_600_000;
const pieces = 5;
const betweenPiecesMs = 250;

/** The target of a check, and the secrets that sign it. */
export interface Checked {
  url: string;
  clientToken: string;
  /** As for `sign`: the current secret first. */
  secrets: readonly string[];
  /** The client's own request headers: sent, and hidden wherever a request is shown. */
  own: Readonly<Record<string, string>>;
}

/**
 * Makes the five sends of a check: the good one, and once it is answered the others at the same time.
 * @param signal ends the wait for a place and every send that is under way
 * @throws the signal's reason if a send got no place in time
 */
export async function sendChecks(
  sender: Sender,
  { url, clientToken, secrets, own }: Checked,
  signal: AbortSignal,
): Promise<Record<Sent, Exchange>> {
  const send = async (id: string, given: { secrets?: string[]; ageMs?: number; inPieces?: true } = {}) => {
    const place = await sender.place(url, clientToken, signal);
    const request = notificationRequest(
      { notificationId: id, clientToken, platformId: 'test', event: 'test' },
      given.secrets ?? secrets,
      Date.now() - (given.ageMs ?? 0),
      own,
    );
    const startedAtMs = performance.now();
    const result = await place
      .post(given.inPieces ? slowly(request) : request)
      .catch(() => tooLate(performance.now() - startedAtMs));
    return { request: { ...request, headers: { ...request.headers, ...hidden(own) } }, result };
  };
  const goodId = newId();
  const good = await send(goodId);
  const [wrongSignature, oldTimestamp, twice, slow] = await Promise.all([
    send(newId(), { secrets: [`whsec_${randomBytes(24).toString('base64')}`] }),
    send(newId(), { ageMs: oldMs }),
    send(goodId),
    send(newId(), { inPieces: true }),
  ]);
  return { good, wrong_signature: wrongSignature, old_timestamp: oldTimestamp, twice, slow };
}

const newId = (): string => idFromBytes(randomBytes(16));

/** The same request, with its body sent in pieces over a second. */
const slowly = ({ headers, body }: Exchange['request']) => ({
  headers: { ...headers, 'content-length': String(Buffer.byteLength(body)) },
  body: () => Readable.from(inPieces(Buffer.from(body)), { objectMode: false }),
});

async function* inPieces(bytes: Buffer): AsyncGenerator<Buffer> {
  const size = Math.ceil(bytes.length / pieces);
  for (let start = 0; start < bytes.length; start += size) {
    if (start > 0) await wait(betweenPiecesMs);
    yield bytes.subarray(start, start + size);
  }
}

const tooLate = (milliseconds: number): PostResult => ({ ok: false, error: 'timeout', milliseconds });

/** Returns each check with its verdict. @param slowMs a good answer that takes longer is a warning */
export function judge(sent: Record<Sent, Exchange>, slowMs: number) {
  const { good, wrong_signature, old_timestamp, twice, slow } = sent;
  return [
    present('good', [good], judgeTaken(good.result, slowMs)),
    present(
      'wrong_signature',
      [wrong_signature],
      judgeRefused(
        wrong_signature.result,
        'Verify webhook-signature with your secret and answer 401 if no signature matches: anybody can send you such a notification.',
      ),
    ),
    present(
      'old_timestamp',
      [old_timestamp],
      judgeRefused(
        old_timestamp.result,
        'Answer 401 to a webhook-timestamp that is more than 5 minutes off your clock: somebody could record a notification and send it again.',
      ),
    ),
    present('twice', [good, twice], judgeRepeat(good.result, twice.result)),
    present('slow', [slow], judgeSlow(good.result, slow.result)),
  ];
}

const present = (name: Sent, exchanges: Exchange[], judged: Judged) => ({
  name,
  sent: exchanges.map(({ request }) => request),
  answered: exchanges.map(({ result: { status, milliseconds, error } }) => ({
    status,
    milliseconds: Math.round(milliseconds),
    error,
  })),
  ...judged,
});

interface Judged {
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
function judgeTaken(result: PostResult, slowMs = Number.POSITIVE_INFINITY): Judged {
  if (result.ours !== undefined) return ourFailure;
  if (!result.ok) return fail(whyNotTaken(result));
  if (result.milliseconds <= slowMs) return ok;
  return warn(
    'Answer 2xx as soon as the notification is stored, and work afterwards: a late answer is a failed attempt.',
  );
}

/** Judges the second answer to a notification that was sent twice. */
function judgeRepeat(first: PostResult, second: PostResult): Judged {
  if (second.ours !== undefined) return ourFailure;
  if (first.ok && !second.ok) {
    return fail(
      'Answer 2xx to a webhook-id that you already have, and do nothing: a notification can arrive twice.',
    );
  }
  return judgeTaken(first.ok ? second : first);
}

/** Judges the answer to a notification that arrives in pieces. */
function judgeSlow(good: PostResult, slow: PostResult): Judged {
  if (slow.ours !== undefined) return ourFailure;
  if (good.ok && !slow.ok) {
    return fail(
      'Read the body to its end before you verify it: it can arrive in pieces, over more than a second.',
    );
  }
  return judgeTaken(slow);
}

/** Judges the answer to a notification that the receiver must refuse. @param remedy the advice if it was accepted */
function judgeRefused(result: PostResult, remedy: string): Judged {
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
