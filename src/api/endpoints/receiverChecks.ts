/** Sends the five requests of a receiver’s check, judges each answer, and gives advice on failures. */
import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import { idFromBytes } from '../../ids.js';
import type { AttemptError } from '../../outgoing/failures.js';
import { hidden, notificationRequest } from '../../outgoing/notification.js';
import type { PostResult, Sender } from '../../outgoing/post.js';
import type { RequestHeaders } from '../../redis/records/secrets.js';

/** The five sends of a check; `twice` is `good` sent once more, with the same id. */
type CheckName = 'good' | 'wrong_signature' | 'old_timestamp' | 'twice' | 'slow';

interface Exchange {
  request: { headers: Record<string, string>; body: string };
  result: PostResult;
}

/** Older than any receiver should accept: libraries of Standard Webhooks accept 5 minutes. */
const oldMs = 3_600_000;
const pieces = 5;
const betweenPiecesMs = 250;

export interface Target {
  url: string;
  clientToken: string;
  /** As for `sign`: the current secret first. */
  secrets: readonly string[];
  /** The client's own request headers: sent, and hidden wherever a request is shown. */
  own: RequestHeaders;
}

interface Variant {
  id?: string;
  ageMs?: number;
  inPieces?: boolean;
  signal?: AbortSignal;
}

/** Sends one test notification. @throws the signal's reason if the send got no permit in time */
export async function sendSigned(
  sender: Sender,
  { url, clientToken, secrets, own }: Target,
  { id = idFromBytes(randomBytes(16)), ageMs = 0, inPieces = false, signal }: Variant = {},
): Promise<Exchange> {
  const permit = await sender.permit(url, clientToken, signal);
  const request = notificationRequest(
    { notificationId: id, clientToken, platformId: 'test', event: 'test' },
    secrets,
    Date.now() - ageMs,
    own,
  );
  const startedAtMs = performance.now();
  const result = await permit
    .post(inPieces ? slowly(request) : request)
    .catch(
      (): PostResult => ({ ok: false, error: 'timeout', milliseconds: performance.now() - startedAtMs }),
    );
  return { request: { ...request, headers: { ...request.headers, ...hidden(own) } }, result };
}

/**
 * Makes the five sends of a check: the good one, then, once that is answered, the others at the same time.
 * @param signal ends the wait for a permit and every send that is under way
 * @throws the signal's reason if a send got no permit in time
 */
export async function sendChecks(
  sender: Sender,
  target: Target,
  signal: AbortSignal,
): Promise<Record<CheckName, Exchange>> {
  const unknownSecret = `whsec_${randomBytes(24).toString('base64')}`;
  const good = await sendSigned(sender, target, { signal });
  const [wrong_signature, old_timestamp, twice, slow] = await Promise.all([
    sendSigned(sender, { ...target, secrets: [unknownSecret] }, { signal }),
    sendSigned(sender, target, { signal, ageMs: oldMs }),
    sendSigned(sender, target, { signal, id: good.request.headers['webhook-id'] }),
    sendSigned(sender, target, { signal, inPieces: true }),
  ]);
  return { good, wrong_signature, old_timestamp, twice, slow };
}

/** Makes the same request with a body that is sent in pieces over a second. */
const slowly = ({ headers, body }: Exchange['request']) => ({
  headers: { ...headers, 'content-length': String(Buffer.byteLength(body)) },
  body: () => Readable.from(piecesOf(Buffer.from(body)), { objectMode: false }),
});

async function* piecesOf(bytes: Buffer): AsyncGenerator<Buffer> {
  const size = Math.ceil(bytes.length / pieces);
  for (let start = 0; start < bytes.length; start += size) {
    if (start > 0) await wait(betweenPiecesMs);
    yield bytes.subarray(start, start + size);
  }
}

/** Returns each check with its verdict. @param slowMs a good answer that takes longer is a warning */
export function judge(
  { good, wrong_signature, old_timestamp, twice, slow }: Record<CheckName, Exchange>,
  slowMs: number,
) {
  const forged =
    'Verify webhook-signature with your secret and answer 401 if no signature matches: anybody can send you such a notification.';
  const replayed =
    'Answer 401 to a webhook-timestamp that is more than 5 minutes off your clock: somebody could record a notification and send it again.';
  const repeated =
    'Answer 2xx to a webhook-id that you already have, and do nothing: a notification can arrive twice.';
  const cutOff =
    'Read the body to its end before you verify it: it can arrive in pieces, over more than a second.';
  const checks: [CheckName, Exchange[], Judged][] = [
    ['good', [good], judgeTaken(good.result, slowMs)],
    ['wrong_signature', [wrong_signature], judgeRefused(wrong_signature.result, forged)],
    ['old_timestamp', [old_timestamp], judgeRefused(old_timestamp.result, replayed)],
    ['twice', [good, twice], judgeSecond(good.result, twice.result, repeated)],
    ['slow', [slow], judgeSecond(good.result, slow.result, cutOff)],
  ];
  return checks.map(([name, exchanges, judged]) => ({
    name,
    sent: exchanges.map(({ request }) => request),
    answered: exchanges.map(({ result }) => presentAnswer(result)),
    ...judged,
  }));
}

export const presentAnswer = ({ status, milliseconds, error }: PostResult) => ({
  status,
  milliseconds: Math.round(milliseconds),
  error,
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
  if (!result.ok) return fail(explainFailure(result.error, result.status).advice);
  if (result.milliseconds <= slowMs) return ok;
  return warn(
    'Answer 2xx as soon as the notification is stored, and work afterwards: a late answer is a failed attempt.',
  );
}

/** Judges the answer to a further send. @param remedy the advice if only the first one was accepted */
function judgeSecond(first: PostResult, second: PostResult, remedy: string): Judged {
  if (second.ours !== undefined) return ourFailure;
  if (first.ok && !second.ok) return fail(remedy);
  return judgeTaken(first.ok ? second : first);
}

/** Judges the answer to a notification that the receiver must refuse. @param remedy the advice if it was accepted */
function judgeRefused(result: PostResult, remedy: string): Judged {
  if (result.ours !== undefined) return ourFailure;
  if (result.ok) return fail(remedy);
  const { status, error } = result;
  if (status !== undefined && status >= 400 && status < 500) return ok;
  const seen =
    status === undefined ? `there was no answer (${error})` : `${status} looks like an error of the receiver`;
  return warn(`Answer 401 when you refuse a notification: ${seen}.`);
}

/** Says what a receiver does that fails an attempt, and what to do about it. @param error a class of the contract */
export function explainFailure(error = '', status?: number): { does: string; advice: string } {
  const [does, advice] = failures[error] ?? ['fails', ''];
  if (status === undefined) return { does, advice };
  return { does: `answers ${status}`, advice: adviceByStatus[status] ?? advice };
}

const failures: Record<string, readonly [does: string, advice: string]> = {
  dns: ['cannot be found', 'The name in the URL has no address: check its DNS records.'],
  connect: ['accepts no connection', 'Check that it runs, and that its firewall lets us in.'],
  tls: ['fails the TLS handshake', 'Check the names, the chain and the end of its certificate.'],
  timeout: ['does not answer in time', 'Answer 2xx once you have stored it, and do the work afterwards.'],
  http_status: ['answers with an error', 'Look into the log of your server at that time.'],
  redirect: ['redirects', 'We do not follow: ask your account manager to register the final URL.'],
  blocked_address: ['has an address that is not public', 'Check the DNS records of the name in the URL.'],
  protocol: ['does not answer in HTTP', 'Check what listens at that port, and what closes the connection.'],
} satisfies Record<AttemptError, readonly [string, string]>;

const signature =
  'Compare its signing secret with that of this site, and verify the raw body. If a gateway in front of it asks for a key, set that as a header of your own.';
const path =
  'Compare the path of the URL with that of your receiver. If it has moved, your account manager can change the URL.';
const adviceByStatus: Record<number, string> = {
  401: signature,
  403: signature,
  404: path,
  405: path,
  410: 'It says with 410 that this URL is gone for good: answer 2xx there again, or ask your account manager to change the URL.',
};
