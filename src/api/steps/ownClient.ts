import { isClientToken } from '../../ids.js';
import type { Db } from '../../redis/connection/db.js';
import { type Client, getClient } from '../../redis/records/clients.js';
import { ApiError } from '../apiError.js';
import type { Step } from '../composeSteps.js';
import type { TokenState } from './bearer.js';
import { required } from './readQuery.js';

export interface ClientState {
  client: Pick<Client, 'clientToken' | 'accountId'>;
}

/**
 * Finds the client of the query's client_token, as state.client; it must be a child of the token's account.
 * @param orPlatform a token with the scope `enrichments` may name any client, too
 */
export const requireOwnClient =
  (db: Db, { orPlatform = false } = {}): Step<TokenState & ClientState> =>
  async (ctx, next) => {
    const { value: clientToken } = required(ctx, 'client_token');
    const { accountId, scopes } = ctx.state.token;
    const isAnyAllowed = orPlatform && scopes.includes('enrichments');
    ctx.state.client = await ownClientOrRefuse(db, clientToken, accountId, isAnyAllowed);
    await next();
  };

/** @throws ApiError 401, the same for a client that does not exist and for another account's */
export async function ownClientOrRefuse(
  db: Db,
  clientToken: string,
  accountId: string,
  isAnyAllowed = false,
): Promise<Client> {
  const client = isClientToken(clientToken) ? await getClient(db, clientToken) : undefined;
  if (client && (isAnyAllowed || client.accountId === accountId)) return client;
  throw new ApiError('invalid_client_token', 'The client token is not valid for this account');
}
