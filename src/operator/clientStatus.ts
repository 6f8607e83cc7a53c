/** The situation of each client, for `status`. */
import type { Config } from '../config.js';
import { mapInPages } from '../mapInPages.js';
import { type Db, nowOf } from '../redis/connection/db.js';
import { unlessBroken } from '../redis/connection/unavailable.js';
import { owedOverview } from '../redis/owed/owedClients.js';
import { clientTokens, getClient } from '../redis/records/clients.js';
import { type Endpoint, getEndpoint } from '../redis/records/endpoint.js';

/**
 * `late`: something could have been sent for more than 2 minutes, and nothing is sent. `draining`: overdue assets are
 * being sent. The others say why nothing is sent now; `clear`: nothing is owed or overdue. The worst first.
 */
export const situations = [
  'late',
  'suspended',
  'failing',
  'not_before',
  'draining',
  'held',
  'paused',
  'no_url',
  'clear',
] as const;
export type Situation = (typeof situations)[number];

export interface ClientStatus {
  clientToken: string;
  endpoint: Endpoint;
  situation: Situation;
  /** How long the next attempt is overdue, ms; 0 if it is not. */
  overdueMs: number;
}

/** The sweep picks up owed assets that nothing works on within 2 minutes (contract, section 3). */
const lateMs = 120_000;
/** A client with overdue assets drains if an attempt ended this recently; the lowest rate is one a second. */
const drainingMs = 10_000;
/** Clients read at the same time. */
const concurrency = 100;

/** Reads client by client, so that broken keys of one client hide no other. @throws if Redis is unavailable */
export async function readClients(
  db: Db,
  { OWED_RETENTION_DAYS }: Config,
  withOverdue: boolean,
): Promise<{ clients: ClientStatus[]; broken: string[] }> {
  const retentionMs = OWED_RETENTION_DAYS * 86_400_000;
  const broken = new Set<string>();
  const clients: ClientStatus[] = [];
  for await (const page of clientTokens(db)) {
    await mapInPages(page, concurrency, (clientToken) =>
      unlessBroken(
        async () => {
          if ((await getClient(db, clientToken)) === undefined) return;
          const endpoint = await getEndpoint(db, clientToken);
          let overdueMs = 0;
          if (withOverdue && endpoint.owed > 0) {
            const overview = await owedOverview(db, clientToken, retentionMs);
            if (!overview.isConsistent) broken.add(clientToken);
            overdueMs = Math.max(overview.overdueMs, 0);
          }
          const hasUrl = (await db.redis.hexists(db.client(clientToken).registration, 'url')) === 1;
          const situation = situationOf(db, endpoint, hasUrl, overdueMs);
          clients.push({ clientToken, endpoint, situation, overdueMs });
        },
        () => void broken.add(clientToken),
      ),
    );
  }
  return { clients, broken: [...broken].sort() };
}

function situationOf(db: Db, endpoint: Endpoint, hasUrl: boolean, overdueMs: number): Situation {
  const { state, held, owed, inFlight, lastSuccessAt = 0, lastFailureAt = 0, notBefore = 0 } = endpoint;
  if (held) return 'held';
  if (state === 'paused' || state === 'suspended') return state;
  if (owed > 0 && !hasUrl) return 'no_url';
  if (overdueMs > lateMs) {
    const isSending = inFlight > 0 || Math.max(lastSuccessAt, lastFailureAt) > nowOf(db) - drainingMs;
    return isSending ? 'draining' : 'late';
  }
  if (state === 'failing') return 'failing';
  return notBefore > nowOf(db) ? 'not_before' : 'clear';
}
