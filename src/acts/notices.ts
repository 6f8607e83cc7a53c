/** The one URL of an account for notices: the registration of the client that gets them (contract, section 5b). */
import { removeNoticesUrl as removeRecord } from '../redis/records/deletion.js';
import { setNoticesUrl as setRecord } from '../redis/records/notices.js';
import { getRegistration } from '../redis/records/registrations.js';
import { act } from './act.js';
import { sayFarewell, showRegistration } from './registrations.js';
import { requireRegistration, type Subject } from './subjects.js';

interface About {
  client: Subject;
}

const counted = { sends: 1, security: 'change' } as const;

/** Sets or replaces the URL, and makes its signing secret if there is none. */
export const setNoticesUrl = act(
  'notices url set',
  { publisher: 'signingSecrets' },
  async (actor, { client, url }: About & { url: string }, admit) => {
    const { clientToken, accountId } = client;
    const box = await actor.secretBox();
    await actor.checkUrl(url);
    await admit({ after: { url } }, counted);
    const before = await getRegistration(await actor.db(), clientToken);
    if (before) await sayFarewell(actor, client, before.url, url);
    await actor.change((db) => setRecord(db, box, accountId, url));
    await actor.wake(clientToken);
    return showRegistration(actor, { client });
  },
);

/** Removes the URL and its signing secrets. Notices that were not delivered yet are cancelled. */
export const removeNoticesUrl = act(
  'notices url removed',
  { publisher: 'signingSecrets' },
  async (actor, { client }: About, admit) => {
    const { clientToken, url } = await requireRegistration(await actor.db(), client);
    await admit({ after: { url } }, counted);
    await sayFarewell(actor, client, url, null);
    actor.countCancelled(await actor.change((db) => removeRecord(db, clientToken)));
    return { removed_url: url };
  },
);
