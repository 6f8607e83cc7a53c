import type { Db } from '../../src/redis/connection/db.js';
import { mintAccessToken } from '../../src/redis/records/accessTokens.js';

/** Mints a token beside the API. @returns undefined if the credentials are refused */
export async function mintToken(
  db: Db,
  { client_id: clientId, client_secret: clientSecret }: { client_id: string; client_secret: string },
  scopes: readonly string[] = [],
  ttlSeconds = 60,
): Promise<string | undefined> {
  const rate = { ttlSeconds, perSecond: 10_000 };
  const minted = await mintAccessToken(db, { clientId, clientSecret }, scopes, rate);
  return minted.outcome === 'minted' ? minted.token : undefined;
}
