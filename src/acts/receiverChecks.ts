/** Tests of a receiver: one notification, or the five of a check, with a verdict and advice for each. */
import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import { ApiError, badParameter, unavailable } from '../http/apiError.js';
import { idFromBytes, isNoticesClient } from '../ids.js';
import { defaultContact, explainFailure, explainRemarks } from '../outgoing/details.js';
import { hidden } from '../outgoing/hidden.js';
import { notificationRequest } from '../outgoing/notification.js';
import type { PostResult, Sender } from '../outgoing/post.js';
import { getRegistration } from '../redis/records/registrations.js';
import { createSigningSecret, readTarget } from '../redis/records/secrets.js';
import { type Actor, type Admit, act, admitted, anyOrSupport, type Tone } from './act.js';
import { type About, requireRegistration } from './subjects.js';

interface Receiver extends About {
  /** Where to send, if not to the registered URL. */
  url?: string | undefined;
}

/** Sends one test notification now; it counts for nothing else. */
export const sendTest = act('registration test', anyOrSupport, async (actor, at: Receiver, admit) => {
  const target = await findTarget(actor, at, admit, 1);
  const { request, result } = await actor.unlessEnding(sendOne(await actor.sender(), target));
  const tone: Tone = result.ok ? 'good' : 'bad';
  return { client_token: target.clientToken, ...presentAnswer(result), request, tone };
});

/** Sends five test notifications, good and bad, and says what the receiver does wrong. */
export const checkReceiver = act('registration check', anyOrSupport, async (actor, at: Receiver, admit) => {
  const target = await findTarget(actor, at, admit, 5);
  const slowMs = actor.config().ATTEMPT_TIMEOUT_SECONDS * 500;
  const all = await actor.unlessEnding(checkAll(await actor.sender(), target, slowMs));
  const checks = all.map((one) => ({ ...one, advice: told(actor, one.advice) }));
  const has = (wanted: Judged['verdict']) => checks.some(({ verdict }) => verdict === wanted);
  const tone: Tone = has('fail') ? 'bad' : has('warn') ? 'warn' : 'good';
  return { client_token: target.clientToken, checks, tone };
});

/** Has a receiver prove that it verifies signatures, within 50 s: a server's default page does not. @throws ApiError 400, 503 */
export async function verifyReceiver(actor: Actor, { client, url }: About & { url: string }) {
  const { clientToken } = client;
  await admitted(actor, 'registration verify', client)({ after: { url } }, { sends: 2 });
  const target = await targetOf(actor, { url, clientToken });
  const sender = await actor.sender();
  const good = judgeTaken((await actor.unlessEnding(sendOne(sender, target))).result);
  if (good.verdict === 'fail')
    throw notVerified('It does not accept a signed test notification', told(actor, good.advice));
  const wrong = await actor.unlessEnding(sendOne(sender, { ...target, secrets: [unknownSecret()] }));
  const refused = judgeRefused(wrong.result, forged);
  if (refused.verdict === 'ok') return;
  const did = refused.verdict === 'fail' ? 'accepts' : 'does not clearly refuse';
  throw notVerified(`It ${did} a test notification with a wrong signature`, refused.advice);
}

/** Finds where to send, once the act is counted and in the audit. @throws ApiError */
async function findTarget(actor: Actor, { client, url: asked }: Receiver, admit: Admit, sends: 1 | 5) {
  const { clientToken } = client;
  const db = await actor.db();
  const isNotices = asked === undefined && isNoticesClient(clientToken);
  const registered = await (isNotices ? requireRegistration(db, client) : getRegistration(db, clientToken));
  const url = asked ?? registered?.url;
  if (url === undefined) throw badParameter('The parameter url is missing, and no url is registered');
  if (url !== registered?.url) await actor.checkUrl(url);
  await admit({ after: { url } }, { sends });
  return targetOf(actor, { url, clientToken });
}

type Exchange = Awaited<ReturnType<typeof sendSigned>>;

/** Older than any receiver should accept: libraries of Standard Webhooks accept 5 minutes. */
const oldMs = 3_600_000;
const pieces = 5;
const betweenPiecesMs = 250;

/** The client's own headers go to its registered URL, or where a caller who may set them says: others could read them there. */
async function targetOf(actor: Actor, { url, clientToken }: { url: string; clientToken: string }) {
  const [db, box] = [await actor.db(), await actor.secretBox()];
  await createSigningSecret(db, box, clientToken);
  // The URL may have been changed, and its headers with it, since the caller has seen it.
  const { registered, signing, headers, waiting } = await readTarget(db, box, clientToken);
  const elsewhere = (await actor.maySeeSecrets()) ? { ...headers, ...waiting } : {};
  return { url, clientToken, secrets: signing, own: url === registered ? headers : elsewhere };
}

type Target = Awaited<ReturnType<typeof targetOf>>;

/** An attempt without an answer by then is a timeout; without a connection, nothing was sent. */
const answerWithinMs = 25_000;

/** Sends one test notification. @throws ApiError if no connection was free in time */
async function sendSigned(
  sender: Sender,
  { url, clientToken, secrets, own }: Target,
  { id = idFromBytes(randomBytes(16)), ageMs = 0, inPieces = false } = {},
) {
  const startedAtMs = performance.now();
  const permit = await sender.permit(url, clientToken, answerWithinMs);
  if (permit === undefined) throw unavailable('too many POSTs wait for a connection');
  const test = { notificationId: id, clientToken, platformId: 'test', event: 'test' } as const;
  const request = notificationRequest(test, secrets, Date.now() - ageMs, own);
  const leftMs = answerWithinMs - (performance.now() - startedAtMs);
  const result = await permit.post(inPieces ? slowly(request) : request, leftMs);
  await permit.over();
  return { request: { ...request, headers: { ...request.headers, ...hidden(own) } }, result };
}

/** Sends one. @throws ApiError if the service could not: that says nothing about the receiver */
async function sendOne(sender: Sender, target: Target): Promise<Exchange> {
  const sent = await sendSigned(sender, target);
  if (sent.result.ours === undefined) return sent;
  throw new ApiError('temporarily_unavailable', explainOurs(sent.result), { 'Retry-After': '30' });
}

/**
 * Makes the five sends of a check within 50 s: a connection of the API without traffic for 60 s is closed (docs/reference/limits.md).
 * First the good one, then, once that is answered, the others at the same time: `twice` over the connection of the good one, if the
 * receiver keeps it. Returns each check with its verdict.
 * @param slowMs a good answer that takes longer is a warning
 * @throws ApiError if a send found no connection in time
 */
async function checkAll(sender: Sender, target: Target, slowMs: number) {
  const good = await sendSigned(sender, target);
  // Whoever asks first gets the connection that rests.
  const [twice, wrongSignature, oldTimestamp, slow] = await Promise.all([
    sendSigned(sender, target, { id: good.request.headers['webhook-id'] }),
    sendSigned(sender, { ...target, secrets: [unknownSecret()] }),
    sendSigned(sender, target, { ageMs: oldMs }),
    sendSigned(sender, target, { inPieces: true }),
  ]);
  const replayed =
    'Answer 401 to a webhook-timestamp that is more than 5 minutes off your clock: somebody could record a notification and send it again.';
  const repeated =
    'Answer 2xx to a webhook-id that you already have, and do nothing: a notification can arrive twice.';
  const cutOff =
    'Read the body to its end before you verify it: it can arrive in pieces, over more than a second.';
  const checks: [string, Exchange[], Judged][] = [
    ['good', [good], judgeTaken(good.result, slowMs)],
    ['wrong_signature', [wrongSignature], judgeRefused(wrongSignature.result, forged, good.result)],
    ['old_timestamp', [oldTimestamp], judgeRefused(oldTimestamp.result, replayed, good.result)],
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

/** Advice names whom the receiver's owner asks. */
const told = (actor: Actor, advice: string): string =>
  advice.replace(defaultContact, actor.by === 'operator' ? 'us' : actor.config().OPERATOR_CONTACT);

const notVerified = (what: string, advice: string) => {
  const says = `The receiver is not verified, and no url was stored. ${what}. ${advice}`;
  return new ApiError('receiver_not_verified', says);
};

const unknownSecret = () => `whsec_${randomBytes(24).toString('base64')}`;

const forged =
  'Verify webhook-signature with your secret and answer 401 if no signature matches: anybody can send you such a notification. If you do, a default page answers at this URL, and takes all notifications.';

/** Makes the same request with a body that is sent in pieces over a second. */
const slowly = ({ headers, body }: ReturnType<typeof notificationRequest>) => ({
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

const presentAnswer = ({ status, milliseconds, error, detail, remarks }: PostResult) => {
  return { status, milliseconds: Math.round(milliseconds), error, detail, remarks };
};

type Judged = { verdict: 'ok' | 'warn' | 'fail'; advice: string };

const ok: Judged = { verdict: 'ok', advice: 'Nothing to do.' };
const fail = (advice: string): Judged => ({ verdict: 'fail', advice });
const warn = (advice: string): Judged => ({ verdict: 'warn', advice });

const explainOurs = ({ ours, why }: PostResult): string =>
  `The service could not send it because of a problem on its side (${why ? `${ours}: ${why}` : ours}), not of your receiver: try again later`;

/**
 * Judges the answer to a notification that the receiver must accept.
 * @param slowMs an answer that takes longer is a warning
 */
function judgeTaken(result: PostResult, slowMs = Number.POSITIVE_INFINITY): Judged {
  if (result.ours !== undefined) return warn(explainOurs(result));
  const remarks = explainRemarks(result.remarks);
  if (!result.ok) return fail([seen(result), explainFailure(result).advice, ...remarks].join(' '));
  if (remarks.length > 0) return warn(remarks.join(' '));
  if (result.milliseconds <= slowMs) return ok;
  return warn(
    'Answer 2xx as soon as the notification is stored, and work afterwards: a late answer is a failed attempt.',
  );
}

const seen = (result: PostResult): string => `Your server ${explainFailure(result).does}.`;

/**
 * Judges the answer to a further send, which comes together with others. @param remedy the advice if only the first one was accepted; a
 * 429 is about neither, and a server that is silent or answers 503 may be one that serves a single connection
 */
function judgeSecond(first: PostResult, second: PostResult, remedy: string): Judged {
  if (second.ours !== undefined) return warn(explainOurs(second));
  if (!first.ok || second.ok || second.status === 429) return judgeTaken(first.ok ? second : first);
  const remarks = explainRemarks(second.remarks);
  if (remarks.length > 0) return fail([seen(second), ...remarks].join(' '));
  const isBusy = (second.status ?? 503) === 503;
  return fail(`${seen(second)} ${isBusy ? 'Take 16 requests at a time. If it does: ' : ''}${remedy}`);
}

/**
 * Judges the answer to a notification that the receiver must refuse. @param remedy the advice if it was accepted
 * @param good the answer to one that it must accept: a server that fails at that too does not choose what it refuses
 */
function judgeRefused(result: PostResult, remedy: string, good: Pick<PostResult, 'ok'> = { ok: true }) {
  if (result.ours !== undefined) return warn(explainOurs(result));
  if (result.ok) return fail(remedy);
  const { status = 0 } = result;
  if (status >= 400 && status < 500 && status !== 429) return ok;
  const advice = good.ok ? 'Answer 401 when you refuse a notification.' : explainFailure(result).advice;
  return warn(`${seen(result)} ${advice}`);
}
