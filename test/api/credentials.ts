import assert from 'node:assert/strict';
import type { Db } from '../../src/redis/connection/db.js';
import { mintAccessToken } from '../../src/redis/records/accessTokens.js';

export interface Credentials {
  client_id: string;
  client_secret: string;
}

/** As the store takes them. */
export function credentialsOf(account: Credentials): { clientId: string; clientSecret: string } {
  return { clientId: account.client_id, clientSecret: account.client_secret };
}

/** Whether these credentials get a token. */
export async function isTaken(db: Db, client_id: string, client_secret: string): Promise<boolean> {
  const minted = await mintAccessToken(db, credentialsOf({ client_id, client_secret }), [], {
    ttlSeconds: 60,
    perSecond: 10_000,
  });
  return minted.outcome === 'minted';
}

/** A token made beside the API. */
export async function mintedToken(
  db: Db,
  account: Credentials,
  scopes: readonly string[],
  ttlSeconds: number,
): Promise<string> {
  const minted = await mintAccessToken(db, credentialsOf(account), scopes, { ttlSeconds, perSecond: 10_000 });
  assert.equal(minted.outcome, 'minted');
  return minted.token;
}
