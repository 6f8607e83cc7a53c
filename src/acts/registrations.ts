/** The URL of a client, and the state of its endpoint. */

import { ApiError } from '../http/apiError.js';
import { originOf } from '../outgoing/target.js';
import { getEndpoint, resumeEndpoint, setPaused } from '../redis/records/endpoint.js';
import { changeRegistration, getRegistration, resetRegistration } from '../redis/records/registrations.js';
import { type Actor, act, type Tone } from './act.js';
import { presentRegistration, presentTime } from './present.js';
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
      owed_since: presentTime(endpoint.oldestOwedAt),
      last_status: endpoint.lastStatus ?? null,
      in_flight: endpoint.inFlight,
    };
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
  async (actor, about: About, title) => {
    const { clientToken } = about.client;
    const before = { url: originOf((await requireRegistration(await actor.db(), about.client)).url) };
    await actor.admit(title, { target: clientToken, before, after: { url: null } });
    return replaced(actor, about.client, await actor.change((db) => resetRegistration(db, clientToken)));
  },
);

/** Replaces a client's URL immediately, without a gap. */
export const change = act(
  'registration change',
  { operator: 'support' },
  async (actor, { client, url }: About & { url: string }, title) => {
    const { clientToken } = client;
    const before = { url: originOf((await requireRegistration(await actor.db(), client)).url) };
    await actor.checkUrl(url);
    await actor.admit(title, { target: clientToken, before, after: { url: originOf(url) } });
    return replaced(actor, client, await actor.change((db) => changeRegistration(db, clientToken, url)));
  },
);

/** @param done what was changed; absent if another has just removed the URL. @throws ApiError 404 */
async function replaced<Done>(actor: Actor, { clientToken }: Subject, done: Done | undefined) {
  if (done === undefined) throw new ApiError('not_registered');
  await actor.wake(clientToken);
  return { client_token: clientToken, ...done };
}
