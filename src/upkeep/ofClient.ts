import type { Db } from '../redis/connection/db.js';
import { owedOverview } from '../redis/owed/owedClients.js';
import { isIndexed } from '../redis/owed/owedIndex.js';
import { listedSince, owedAssets, owedSizes, strayAssets } from '../redis/owed/owedWalk.js';
import { type Standing, standingsOf } from '../redis/owed/standing.js';
import { getClient } from '../redis/records/clients.js';
import { getEndpoint } from '../redis/records/endpoint.js';
import { getRegistration } from '../redis/records/registrations.js';
import { disagreementOf, isAgedOut, isForgotten } from './judge.js';
import type { Unaccounted } from './problem.js';
import type { Walk } from './walk.js';

const pageSize = 500;

/**
 * Accounts for everything that Redis has about one client: listed notifications, owed assets, and whether the two
 * agree. Each notification is read in one script, so that a concurrent change is not mistaken for an error.
 * @returns `forgotten` if nothing seems to work on its owed assets; the caller checks again before it reports that
 */
export async function accountForClient(walk: Walk, clientToken: string): Promise<'forgotten' | 'fine'> {
  walk.looked.clients++;
  const { db, settings, tally } = walk;
  await readWhatItIs(db, clientToken);
  await accountForOwed(walk, clientToken);
  await accountForListed(walk, clientToken);
  const sizes = await owedSizes(db, clientToken);
  if (sizes.since !== sizes.owed || sizes.due !== sizes.owed) {
    for (const stray of await strayAssets(db, clientToken)) {
      tally.blame({ clientToken, ...stray, problem: 'due_but_not_owed' });
    }
  }
  if (sizes.longestLeaseMs > settings.leaseMs + 60_000)
    tally.blame({ clientToken, problem: 'in_flight_too_long' });
  if (sizes.owed === 0) return 'fine';
  if (!(await isIndexed(db, clientToken))) tally.blame({ clientToken, problem: 'not_in_index' });
  return isForgotten(await owedOverview(db, clientToken, settings.retentionMs)) ? 'forgotten' : 'fine';
}

/** Reads client, registration and endpoint. @throws if one of these keys is broken */
export async function readWhatItIs(db: Db, clientToken: string): Promise<void> {
  await Promise.all([
    getClient(db, clientToken),
    getRegistration(db, clientToken),
    getEndpoint(db, clientToken),
  ]);
}

/** Checks every owed asset; counts those that are not listed, as only the newest 10,000 are. */
async function accountForOwed(
  { db, settings, since, tally, looked }: Walk,
  clientToken: string,
): Promise<void> {
  for await (const page of owedAssets(db, clientToken)) {
    const { standings, now } = await standingsOf(db, clientToken, page);
    for (const standing of standings) {
      const problem = disagreementOf(standing, now, settings);
      if (problem !== undefined) tally.blame({ ...namesOf(clientToken, standing), problem });
      else if (standing.owed && !standing.listed && (standing.acceptedAt ?? 0) >= since) {
        looked.notifications++;
        tally.count('owed');
      }
    }
  }
}

async function accountForListed(
  { db, settings, since, tally, looked }: Walk,
  clientToken: string,
): Promise<void> {
  const listed = await listedSince(db, clientToken, since);
  for (let i = 0; i < listed.length; i += pageSize) {
    const page = listed.slice(i, i + pageSize);
    const { standings, now } = await standingsOf(
      db,
      clientToken,
      page.map(({ notificationId }) => ({ notificationId })),
    );
    looked.notifications += page.length;
    page.forEach(({ acceptedAt }, n) => {
      const standing = standings[n] as Standing;
      const problem = disagreementOf(standing, now, settings);
      if (problem !== undefined) tally.blame({ ...namesOf(clientToken, standing), problem });
      else if (standing.state === 'waiting') tally.count('owed');
      else if (standing.state !== undefined) tally.count(standing.state);
      else if (isAgedOut(acceptedAt, now)) tally.count('aged_out');
      else tally.blame({ ...namesOf(clientToken, standing), problem: 'record_missing' });
    });
  }
}

/** Returns the ids with which a finding names a notification. */
export function namesOf(
  clientToken: string,
  { notificationId, platformId }: Standing,
): Pick<Unaccounted, 'clientToken' | 'notificationId' | 'platformId'> {
  return { clientToken, notificationId, ...(platformId !== undefined && { platformId }) };
}
