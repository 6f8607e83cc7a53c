/** The URL of a client, or of an account for notices, and the state of its endpoint. */
import { randomBytes } from 'node:crypto';
import { ApiError, refused, unavailable } from '../http/apiError.js';
import { type ClientToken, idFromBytes, isNoticesClient } from '../ids.js';
import { changedBody } from '../notices/notices.js';
import { notificationRequest } from '../outgoing/notification.js';
import { withTimeout } from '../promises.js';
import { nowOf } from '../redis/connection/db.js';
import { removeNoticesUrl as removeRecord } from '../redis/records/deletion.js';
import { getEndpoint, resumeEndpoint, setPaused } from '../redis/records/endpoint.js';
import { setNoticesUrl as setRecord } from '../redis/records/notices.js';
import {
  answerWithinMs,
  changeRegistration,
  getRegistration,
  type Replacing,
  resetRegistration,
  register as storeUrl,
} from '../redis/records/registrations.js';
import { SecretUnreadable, unlessUnreadable } from '../redis/records/secretBox.js';
import { formerUrls, readSecrets, sealFormer } from '../redis/records/secrets.js';
import {
  type Actor,
  type Admit,
  act,
  anyOrLook,
  anyOrSupport,
  anyPublisher,
  look,
  support,
  type Tone,
  withSecrets,
} from './act.js';
import { presentRegistration, presentTime } from './present.js';
import { verifyReceiver } from './receiverChecks.js';
import { type About, requireRegistration, type Subject } from './subjects.js';

export const showRegistration = act('registration show', anyOrLook, async (actor, { client }: About) => {
  const db = await actor.db();
  const registration = await requireRegistration(db, client);
  const endpoint = await getEndpoint(db, client.clientToken);
  return {
    client_token: client.clientToken,
    account_id: client.accountId,
    ...presentRegistration({ ...registration, url: actor.shownUrl(registration.url) }, endpoint),
    held: endpoint.held,
    last_status: endpoint.lastStatus ?? null,
    in_flight: endpoint.inFlight,
  };
});

type WithUrl = About & { url: string };

/** Refuses a client that has a URL, unless a repeat takes over what an equal call without an answer has stored. @throws ApiError 400 */
export async function requireUnregistered(actor: Actor, { client, url }: WithUrl) {
  const there = await getRegistration(await actor.db(), client.clientToken);
  if (there && (there.answered || there.url !== url)) throw alreadyRegistered(actor);
}

const alreadyRegistered = (actor: Actor): ApiError =>
  new ApiError(
    'already_registered',
    `A url is already registered. Please contact ${actor.config().OPERATOR_CONTACT}`,
  );

/** Registers the one URL of a client. Once the caller has the answer, mark it as answered, by the nonce. */
export const register = act(
  'registration',
  anyPublisher,
  async (actor, { client, url, verify }: About & { url: string; verify: boolean }, admit) => {
    const { clientToken } = client;
    await requireUnregistered(actor, { client, url });
    await actor.checkUrl(url);
    if (verify || actor.config().VERIFY_REGISTRATIONS) await verifyReceiver(actor, { client, url });
    await admit({ after: { url } }, { security: 'change' });
    const [box, maySetHeaders] = [await actor.secretBox(), await actor.maySeeSecrets()];
    const db = await actor.db();
    const stored = db.durably((own) => storeUrl(own, box, clientToken, url, { maySetHeaders }));
    const result = await stored.answer;
    if (result.outcome === 'taken') throw alreadyRegistered(actor);
    // From here on the caller gets 200, or 503 while a repeat may still take this over, but never later.
    const endsAtMs = result.storingSinceMs + answerWithinMs;
    const tooLate = () => {
      throw unavailable('the registration was not on disk in time');
    };
    await withTimeout(stored.safe, endsAtMs - Date.now(), tooLate);
    if (Date.now() > endsAtMs) tooLate();
    actor.report({ clientToken, from: 'not_registered', to: 'active', why: 'registered' });
    await actor.wake(clientToken);
    return { success: true, url, nonce: result.nonce };
  },
);

/** Pauses all deliveries of a client; owed assets stay owed. */
export const pause = act('registration pause', support, (actor, { client }: About, admit) =>
  switched(actor, client, admit, { paused: true }),
);

/** Probes a suspended or failing endpoint now, and then drains. An operator ends a pause too. */
export const resume = act('registration resume', anyOrSupport, async (actor, { client }: About, admit) => {
  if (actor.by === 'publisher') await requireRegistration(await actor.db(), client);
  return switched(actor, client, admit, { paused: false });
});

async function switched(actor: Actor, { clientToken }: Subject, admit: Admit, after: { paused: boolean }) {
  const { by } = actor;
  const db = await actor.db();
  const from = (await getEndpoint(db, clientToken)).state;
  await admit({ before: { state: from }, after, about: {} }, { sends: 1 });
  await actor.change(async (own) => {
    if (by === 'operator') await setPaused(own, clientToken, after.paused);
    if (!after.paused) await resumeEndpoint(own, clientToken, by);
  });
  const { state, owed, held } = await getEndpoint(db, clientToken);
  actor.report({ clientToken, from, to: state, why: `${after.paused ? 'paused' : 'resumed'} by the ${by}` });
  const isWoken = await actor.wake(clientToken);
  const hasUrl = (await getRegistration(db, clientToken)) !== undefined;
  const isResumed = after.paused || (hasUrl && !held);
  const tone: Tone = isResumed ? 'good' : 'warn';
  return { client_token: clientToken, previous_state: from, state, owed, held, isWoken, hasUrl, tone };
}

/** Removes a client's URL; owed assets stay owed and go to the next URL. */
export const reset = act('registration reset', support, async (actor, { client }: About, admit) => {
  const { url: present } = await requireRegistration(await actor.db(), client);
  return replace(actor, client, admit, { present, url: null });
});

export const change = act('registration change', support, async (actor, given: WithUrl, admit) => {
  const { client, url } = given;
  const { url: present } = await requireRegistration(await actor.db(), client);
  return replace(actor, client, admit, { present, url });
});

/** Lists the former URLs of a client that are kept, the newest first. */
export const listFormer = act('registration former', look, async (actor, { client }: About) => {
  const { clientToken } = client;
  const kept = await formerUrls(await actor.db(), await actor.secretBox(), clientToken);
  return kept.flatMap(({ former, open, since, until }) => {
    const times = { given_up_at: presentTime(since), kept_until: presentTime(until) };
    try {
      return [{ former, url: actor.shownUrl(open()), ...times }];
    } catch (err) {
      if (!(err instanceof SecretUnreadable)) throw err;
      actor.warn(`The former URL ${former} of ${clientToken} cannot be read: ${err.message}.`);
      return [];
    }
  });
});

/** Puts a former URL back, by default the last, unless the publisher has registered one since. */
export const restore = act(
  'registration restore',
  support,
  async (actor, { client, former }: About & { former?: string | undefined }, admit) => {
    const { clientToken } = client;
    const db = await actor.db();
    const kept = await formerUrls(db, await actor.secretBox(), clientToken);
    const wanted = former === undefined ? kept[0] : kept.find((one) => one.former === former);
    if (wanted === undefined)
      throw refused(`${clientToken} has no ${former ? 'such former URL' : 'former URL'} that is kept`);
    const present = await getRegistration(db, clientToken);
    if (present?.isOperators === false)
      throw refused(`${clientToken} has a URL that its publisher has registered since`);
    const { open, field: restored } = wanted;
    const url = open();
    const as = { former: wanted.former };
    return replace(actor, client, admit, { present: present?.url, url, as, restored });
  },
);

interface Replacement extends Pick<Replacing, 'restored' | 'accepted'> {
  present: string | undefined;
  url: string | null;
  /** What else the audit names. */
  as?: Record<string, string>;
}

/**
 * Changes or removes the present URL, which tells the account, and keeps it.
 * @throws ApiError if another has just changed or removed the URL
 */
export async function replace(actor: Actor, client: Subject, admit: Admit, given: Replacement) {
  const { present, url, as, ...instead } = given;
  const { clientToken } = client;
  if (url !== null) await actor.checkUrl(url);
  const kept = present === undefined ? undefined : await keep(actor, client, present);
  await admit({ before: { url: present ?? null, former: kept?.former }, after: { url, ...as } });
  if (present !== undefined) await sayFarewell(actor, client, present, url);
  const seen = { present: present ?? '', kept, ...instead };
  const done =
    url === null
      ? await actor.change((db) => resetRegistration(db, clientToken, seen))
      : await actor.change((db) => changeRegistration(db, clientToken, url, 'operator', seen));
  if (done === undefined) throw refused(`The URL of ${clientToken} has just been changed: look again`);
  await actor.claimNotices(clientToken);
  await actor.wake(clientToken);
  return { client_token: clientToken, ...done };
}

async function keep(actor: Actor, { clientToken }: Subject, url: string) {
  const [db, box] = [await actor.db(), await actor.secretBox().catch(unlessUnreadable)];
  const kept = box && sealFormer(db, box, clientToken, url);
  if (kept === undefined) actor.warn('The former URL is not kept: that needs SECRETS_KEY.');
  return kept;
}

/**
 * Sends a message to a URL that will get no more notices, once, without retries: a notice would go to the new URL. Somebody with a
 * stolen token must not silence the notices unnoticed, so call it before the change, which may happen although the call ends in 503.
 * Waits only until the message is signed: its secrets may be gone afterwards. An operator may lack their key.
 */
export async function sayFarewell(actor: Actor, client: Subject, url: string, next: string | null) {
  const { clientToken, accountId } = client;
  if (!isNoticesClient(clientToken) || url === next) return;
  const change = next === null ? 'removed' : 'replaced';
  const about = { client_token: clientToken, change };
  const notTold = 'the previous URL for notices was not told';
  const [db, sender] = [await actor.db(), await actor.sender()];
  const read = async () => readSecrets(db, await actor.secretBox(), clientToken);
  const secrets = await (actor.by === 'operator' ? read().catch(unlessUnreadable) : read());
  if (secrets === undefined) return actor.warn(`Done, but ${notTold}: that needs SECRETS_KEY.`);
  const notificationId = idFromBytes(randomBytes(16));
  const body = changedBody(accountId, nowOf(db), change);
  const notice = { notificationId, clientToken, platformId: '', body };
  const request = notificationRequest(notice, secrets.signing, Date.now());
  void sender.post({ url, client: clientToken, ...request }).then(
    ({ ok, status, error, detail, ours, why }) => {
      if (ok) actor.log.info({ ...about, status }, 'the previous URL for notices was told');
      else actor.log.warn({ ...about, status, error, detail, ours, why }, notTold);
    },
    (err: unknown) => actor.log.error({ ...about, err }, notTold),
  );
}

const counted = { sends: 1, security: 'change' } as const;

/** Sets or replaces the URL of an account for notices (contract, section 5b), and makes its signing secret if there is none. */
export const setNoticesUrl = act('notices url set', withSecrets, async (actor, given: WithUrl, admit) => {
  const { client, url } = given;
  const { clientToken, accountId } = client;
  const box = await actor.secretBox();
  await actor.checkUrl(url);
  await admit({ after: { url } }, counted);
  const replaces = (of: ClientToken, present: string) =>
    sayFarewell(actor, { ...client, clientToken: of }, present, url);
  await actor.change((db) => setRecord(db, box, accountId, url, replaces));
  await actor.wake(clientToken);
  return showRegistration(actor, { client });
});

/** Removes the URL for notices and its signing secrets. Notices that were not delivered yet are cancelled. */
export const removeNoticesUrl = act(
  'notices url removed',
  withSecrets,
  async (actor, { client }: About, admit) => {
    const present = async () => (await requireRegistration(await actor.db(), client)).url;
    let url = await present();
    await admit({ after: { url } }, counted);
    for (;;) {
      await sayFarewell(actor, client, url, null);
      const { done, isOther } = await actor.change((db) => removeRecord(db, client.clientToken, url));
      actor.countCancelled(done);
      if (!isOther) return { removed_url: url };
      url = await present();
    }
  },
);
