/** The URL of a client, and the state of its endpoint. */

import { ApiError, unavailable } from '../http/apiError.js';
import { originOf } from '../outgoing/target.js';
import { withTimeout } from '../promises.js';
import type { Db } from '../redis/connection/db.js';
import { getEndpoint, resumeEndpoint, setPaused } from '../redis/records/endpoint.js';
import {
  answerWithinMs,
  changeRegistration,
  getRegistration,
  resetRegistration,
  register as storeUrl,
} from '../redis/records/registrations.js';
import { SecretUnreadable } from '../redis/records/secretBox.js';
import { formerUrls, sealFormer } from '../redis/records/secrets.js';
import { type Actor, act, type Tone } from './act.js';
import { presentRegistration, presentTime } from './present.js';
import { verifyReceiver } from './receiverChecks.js';
import { requireRegistration, type Subject } from './subjects.js';

interface About {
  client: Subject;
}

/** Shows a client's URL and the state of its endpoint. */
export const showRegistration = act(
  'registration show',
  { publisher: 'any', operator: 'look' },
  async (actor, { client }: About) => {
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
  },
);

/** Refuses a client that has a URL, unless a repeat takes over what an equal call without an answer has stored. @throws ApiError 400 */
export async function requireUnregistered(actor: Actor, { client, url }: About & { url: string }) {
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
  { publisher: 'any' },
  async (actor, { client, url, verify }: About & { url: string; verify: boolean }, title) => {
    const { clientToken } = client;
    await requireUnregistered(actor, { client, url });
    await actor.checkUrl(url);
    if (verify || actor.config().VERIFY_REGISTRATIONS) await verifyReceiver(actor, { client, url });
    const after = { url: originOf(url) };
    await actor.admit(title, { target: clientToken, after }, { security: 'change' });
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
export const pause = act('registration pause', { operator: 'support' }, (actor, { client }: About, title) =>
  switched(actor, client, title, { paused: true }),
);

/** Probes a suspended or failing endpoint now, and then drains. An operator ends a pause too. */
export const resume = act(
  'registration resume',
  { publisher: 'any', operator: 'support' },
  async (actor, { client }: About, title) => {
    if (actor.by === 'publisher') await requireRegistration(await actor.db(), client);
    return switched(actor, client, title, { paused: false });
  },
);

async function switched(actor: Actor, { clientToken }: Subject, title: string, after: { paused: boolean }) {
  const { by } = actor;
  const db = await actor.db();
  const from = (await getEndpoint(db, clientToken)).state;
  const counted = { sends: 1 } as const;
  await actor.admit(title, { target: clientToken, before: { state: from }, after, about: {} }, counted);
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
export const reset = act(
  'registration reset',
  { operator: 'support' },
  async (actor, { client }: About, title) => {
    const { url } = await requireRegistration(await actor.db(), client);
    const { before, replacing } = await keeping(actor, client, url);
    await actor.admit(title, { target: client.clientToken, before, after: { url: null } });
    return replaced(actor, client, (db) => resetRegistration(db, client.clientToken, replacing));
  },
);

/** Replaces a client's URL immediately, without a gap. */
export const change = act(
  'registration change',
  { operator: 'support' },
  async (actor, { client, url }: About & { url: string }, title) => {
    const { url: present } = await requireRegistration(await actor.db(), client);
    await actor.checkUrl(url);
    const { before, replacing } = await keeping(actor, client, present);
    await actor.admit(title, { target: client.clientToken, before, after: { url: originOf(url) } });
    return replaced(actor, client, (db) =>
      changeRegistration(db, client.clientToken, url, 'operator', replacing),
    );
  },
);

/** Lists the former URLs of a client that are kept, the newest first. */
export const listFormer = act(
  'registration former',
  { operator: 'look' },
  async (actor, { client: { clientToken } }: About) => {
    const kept = await formerUrls(await actor.db(), await actor.secretBox(), clientToken);
    return kept.map(({ former, url, since, until }) => {
      const times = { given_up_at: presentTime(since), kept_until: presentTime(until) };
      return { former, url: actor.shownUrl(url), ...times };
    });
  },
);

/** Puts a former URL back, by default the last, unless the publisher has registered one since. */
export const restore = act(
  'registration restore',
  { operator: 'support' },
  async (actor, { client, former }: About & { former?: string | undefined }, title) => {
    const { clientToken } = client;
    const db = await actor.db();
    const kept = await formerUrls(db, await actor.secretBox(), clientToken);
    const wanted = former === undefined ? kept[0] : kept.find((one) => one.former === former);
    if (wanted === undefined)
      throw new ApiError(
        'refused',
        `${clientToken} has no ${former ? 'such former URL' : 'former URL'} that is kept`,
      );
    const present = await getRegistration(db, clientToken);
    if (present?.isOperators === false)
      throw new ApiError('refused', `${clientToken} has a URL that its publisher has registered since`);
    await actor.checkUrl(wanted.url);
    const { before, replacing } = await keeping(actor, client, present?.url);
    const after = { url: originOf(wanted.url), former: wanted.former };
    await actor.admit(title, { target: clientToken, before, after });
    return replaced(actor, client, (own) =>
      changeRegistration(own, clientToken, wanted.url, 'operator', { ...replacing, restored: wanted.field }),
    );
  },
);

/** Prepares that a URL is kept, which is about to be changed or removed. `before`: for the audit, with the reference of what is kept. */
export async function keeping(actor: Actor, { clientToken }: Subject, url?: string) {
  if (url === undefined) return { before: { url: null }, replacing: { present: '' } };
  const db = await actor.db();
  const box = await actor.secretBox().catch((err: unknown) => {
    if (!(err instanceof SecretUnreadable)) throw err;
    return undefined;
  });
  const kept = box && sealFormer(db, box, clientToken, url);
  if (kept === undefined) actor.warn('The former URL is not kept: that needs SECRETS_KEY.');
  return { before: { url: originOf(url), former: kept?.former }, replacing: { present: url, kept } };
}

/** Makes the change, which tells the account. @throws ApiError if another has just changed or removed the URL */
export async function replaced<Done>(
  actor: Actor,
  { clientToken }: Subject,
  write: (db: Db) => Promise<Done | undefined>,
) {
  const done = await actor.change(write);
  if (done === undefined)
    throw new ApiError('refused', `The URL of ${clientToken} has just been changed: look again`);
  await actor.claimNotices(clientToken);
  await actor.wake(clientToken);
  return { client_token: clientToken, ...done };
}
