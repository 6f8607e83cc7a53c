/** The clients of accounts: listed, created, bounded, deleted. */
import { ApiError } from '../http/apiError.js';
import { isNoticesClient } from '../ids.js';
import type { Db } from '../redis/connection/db.js';
import { clientsToLookAt } from '../redis/owed/owedClients.js';
import type { Account } from '../redis/records/accounts.js';
import {
  type Client,
  createClient as createRecord,
  findClients,
  getClient,
  pageOfClients,
  setClient,
} from '../redis/records/clients.js';
import { isAmissKnown } from '../redis/records/counts.js';
import { continueDeletion, deleteClient as deleteRecords } from '../redis/records/deletion.js';
import { readSite } from '../redis/records/endpoint.js';
import { createSigningSecret } from '../redis/records/secrets.js';
import { act, admin, anyOrLook, anyOrSupport } from './act.js';
import type { About } from './subjects.js';

export interface SiteFilter {
  accountId?: string | undefined;
  /** A part of its name, its token or the host of its URL. */
  name?: string | undefined;
  /** A state; `failed`: with failed assets. */
  state?: string | undefined;
  /** With the clients that get notices. */
  withNotices?: boolean;
  after?: string | undefined;
  limit: number;
}

export type Site = Awaited<ReturnType<typeof readSite<Client>>>;

/** Lists the clients that match, page by page, by client token, each with its URL and the state of its endpoint. */
export async function pageOfSites(db: Db, { name = '', state, withNotices, ...asked }: SiteFilter) {
  const only = asked.accountId === undefined ? await candidates(db, name, state) : undefined;
  return pageOfClients(db, { ...asked, only }, async (client): Promise<Site | undefined> => {
    if (!withNotices && isNoticesClient(client.clientToken)) return undefined;
    const site = await readSite(db, client);
    const host = site.registration ? new URL(site.registration.url).host : '';
    const isMeant = hasPart(`${client.name}\n${client.clientToken}\n${host}`, name);
    const isInState =
      state === 'failed' ? (site.health?.failed ?? 0) > 0 : (state ?? site.state) === site.state;
    return isMeant && isInState ? site : undefined;
  });
}

/** Of all clients, returns those that may match, so that not every record is read; undefined: any may. */
async function candidates(db: Db, name: string, state: string | undefined) {
  if (name !== '') return findClients(db, (text) => hasPart(text, name));
  const isOfAny = state === undefined || state === 'active' || state === 'not_registered';
  if (isOfAny || !(await isAmissKnown(db))) return undefined;
  const found = new Set<string>();
  for await (const page of clientsToLookAt(db)) for (const token of page) found.add(token);
  return found;
}

/** Returns whether a text has this part, in capital letters or not, in either form of Unicode. */
export const hasPart = (text: string, part: string): boolean => plain(text).includes(plain(part));

const plain = (text: string): string => text.normalize('NFC').toLowerCase();

/** Lists clients: a publisher those of its account without those that get notices, an operator all. */
export const listClients = act(
  'client list',
  anyOrLook,
  async (actor, asked: Omit<SiteFilter, 'withNotices'>) => {
    const accountId = actor.accountId ?? asked.accountId;
    const filter = { ...asked, accountId, withNotices: actor.by === 'operator' };
    const { clients, next } = await pageOfSites(await actor.db(), filter);
    return {
      clients: clients.map(({ registration, health, state, ...client }) => ({
        ...presentClient(client),
        state,
        owed: health?.owed ?? null,
        failed: health?.failed ?? null,
        url: registration && actor.shownUrl(registration.url),
      })),
      next,
    };
  },
);

interface NewClient {
  account: Account;
  name: string;
  token?: string | undefined;
  /** Answers a client of the account that has this token. */
  if_absent: boolean;
}

export const createClient = act('client create', admin, async (actor, given: NewClient, admit) => {
  const { account, name, token: clientToken, if_absent: ifAbsent } = given;
  const { accountId } = account;
  const box = await actor.secretBox();
  const found = ifAbsent && clientToken ? await getClient(await actor.db(), clientToken) : undefined;
  // One whose creation was cut off has no name yet.
  if (found?.accountId === accountId && found.name !== '') return presentClient(found);
  const made = await actor.change((db) =>
    createRecord(db, { accountId, name, clientToken, ifAbsent }, (target) =>
      admit({ target, after: { account_id: accountId, name } }),
    ),
  );
  await actor.change((db) => createSigningSecret(db, box, made.clientToken));
  return presentClient(made);
});

export const quietSecondsAtMost = 3600;

type Bounds = Parameters<typeof setClient>[2];

/** Changes the bounds of a client; null means the service's own. Only an operator changes others than the quiet period. */
export const setBounds = act('client set', anyOrSupport, async (actor, given: About & Bounds, admit) => {
  const { client, ...bounds } = given;
  if (actor.by === 'publisher' && Object.keys(bounds).some((name) => name !== 'quiet_seconds'))
    throw new ApiError('insufficient_scope', 'Only operators change the bounds of a client');
  const before = await getClient(await actor.db(), client.clientToken);
  await admit({ before: before && boundsOf(before), after: bounds }, { sets: true });
  return presentClient(await actor.change((db) => setClient(db, client.clientToken, bounds)));
});

export const deleteClient = act('client delete', admin, async (actor, given: { client: Client }, admit) => {
  const { client } = given;
  const { clientToken } = client;
  const db = await actor.db();
  const { registration, health } = await readSite(db, client);
  const before = { ...presentClient(client), url: registration?.url, owed: health?.owed };
  await admit({ before, cancels: health?.owed });
  await actor.change((own) => deleteRecords(own, clientToken));
  // If this fails, the sweep finishes the deletion.
  const { cancelled } = await continueDeletion(db, { clientToken, at: 0 });
  return { client_token: clientToken, deleted: true, removed_url: registration?.url, cancelled };
});

export const presentClient = (client: Client) => ({
  client_token: client.clientToken,
  account_id: client.accountId,
  name: client.name,
  ...boundsOf(client),
});

const boundsOf = (client: Client) => ({
  max_in_flight: client.maxInFlight ?? null,
  max_per_second: client.maxPerSecond ?? null,
  quiet_seconds: client.quietSeconds ?? 0,
});
