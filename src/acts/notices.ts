/** The one URL of an account for notices: the registration of the client that gets them (contract, section 5b). */
import { randomBytes } from 'node:crypto';
import { idFromBytes } from '../ids.js';
import { changedBody } from '../notices/notices.js';
import { notificationRequest } from '../outgoing/notification.js';
import { originOf } from '../outgoing/target.js';
import { nowOf } from '../redis/connection/db.js';
import { removeNoticesUrl as removeRecord } from '../redis/records/deletion.js';
import { setNoticesUrl as setRecord } from '../redis/records/notices.js';
import { getRegistration } from '../redis/records/registrations.js';
import { readSecrets } from '../redis/records/secrets.js';
import { type Actor, act } from './act.js';
import { showRegistration } from './registrations.js';
import { requireRegistration, type Subject } from './subjects.js';

interface About {
  client: Subject;
}

const counted = { sends: 1, security: 'change' } as const;

/** Sets or replaces the URL, and makes its signing secret if there is none. */
export const setNoticesUrl = act(
  'notices url set',
  { publisher: 'signingSecrets' },
  async (actor, { client, url }: About & { url: string }, title) => {
    const { clientToken, accountId } = client;
    const box = await actor.secretBox();
    await actor.checkUrl(url);
    await actor.admit(title, { target: clientToken, after: { url: originOf(url) } }, counted);
    const before = await getRegistration(await actor.db(), clientToken);
    if (before && before.url !== url) await sendFarewell(actor, client, before.url, 'replaced');
    await actor.change((db) => setRecord(db, box, accountId, url));
    await actor.wake(clientToken);
    return showRegistration(actor, { client });
  },
);

/** Removes the URL and its signing secrets. Notices that were not delivered yet are cancelled. */
export const removeNoticesUrl = act(
  'notices url removed',
  { publisher: 'signingSecrets' },
  async (actor, { client }: About, title) => {
    const { clientToken, url } = await requireRegistration(await actor.db(), client);
    await actor.admit(title, { target: clientToken, after: { url: originOf(url) } }, counted);
    await sendFarewell(actor, client, url, 'removed');
    actor.countCancelled(await actor.change((db) => removeRecord(db, clientToken)));
    return { removed_url: url };
  },
);

/**
 * Sends a message to a URL that will get no more notices, once, without retries: a notice would go to the new URL. Somebody with a
 * stolen token must not silence the notices unnoticed, so call it before the change, which may happen although the call ends in 503.
 * Waits only until the message is signed: its secrets may be gone afterwards.
 */
async function sendFarewell(
  actor: Actor,
  { clientToken, accountId }: Subject,
  url: string,
  change: 'replaced' | 'removed',
): Promise<void> {
  const [db, sender] = [await actor.db(), await actor.sender()];
  const { signing } = await readSecrets(db, await actor.secretBox(), clientToken);
  const notificationId = idFromBytes(randomBytes(16));
  const body = changedBody(accountId, nowOf(db), change);
  const request = notificationRequest(
    { notificationId, clientToken, platformId: '', body },
    signing,
    Date.now(),
  );
  const about = { client_token: clientToken, change };
  const notTold = 'the previous URL for notices was not told';
  void sender.post({ url, client: clientToken, ...request }).then(
    ({ ok, status, error, detail, ours, why }) => {
      if (ok) actor.log.info({ ...about, status }, 'the previous URL for notices was told');
      else actor.log.warn({ ...about, status, error, detail, ours, why }, notTold);
    },
    (err: unknown) => actor.log.error({ ...about, err }, notTold),
  );
}
