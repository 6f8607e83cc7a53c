import type { Middleware } from 'koa';
import { mintAccessToken } from '../../redis/records/accessTokens.js';
import { isClientId } from '../../redis/records/accounts.js';
import { ApiError, badParameter } from '../apiError.js';
import { clientAddress } from '../clientAddress.js';
import { composeSteps, type Step } from '../composeSteps.js';
import type { ApiDeps } from '../deps.js';
import type { Form } from '../steps/body/form.js';
import { readForm } from '../steps/body/readForm.js';
import { createTokenLimits, type TokenLimits } from '../steps/tokenLimits.js';

/** POST /oauth/access_token: mints a token for an account's credentials (contract, section 1). */
export function accessTokenEndpoint(deps: ApiDeps): Middleware[] {
  const limits = createTokenLimits(deps.db, deps.config.TOKEN_RATE_PER_SECOND);
  return composeSteps<TokenState>(
    noStore,
    logRefusal(deps),
    readForm,
    readFields,
    checkGrantType,
    refuseTooMany(deps, limits),
    answerToken(deps, limits),
  );
}

interface TokenState {
  form: Form;
  fields: Record<'grant_type' | 'client_id' | 'client_secret' | 'scope', string>;
}

/** RFC 6749, section 5.1: for every answer that may hold a token or information about credentials. */
const noStore: Step = (ctx, next) => {
  ctx.res.setHeader('Cache-Control', 'no-store');
  ctx.res.setHeader('Pragma', 'no-cache');
  return next();
};

/** Logs the client id and address of a refused token call: the request's own line names neither. */
const logRefusal =
  ({ log, config }: ApiDeps): Step<Partial<TokenState>> =>
  async (ctx, next) => {
    try {
      await next();
    } catch (err) {
      if (err instanceof ApiError) {
        const given = ctx.state.form?.get('client_id') ?? '';
        log.info(
          {
            // Any other value may be a secret in the wrong field.
            client_id: isClientId(given) ? given : 'malformed',
            address: clientAddress(ctx.req, config.TRUSTED_PROXIES),
            error: err.code,
            status: err.status,
            request_id: ctx.state.requestId,
          },
          'a token call was refused',
        );
      }
      throw err;
    }
  };

const readFields: Step<TokenState> = (ctx, next) => {
  const read = (name: string): string => {
    const value = ctx.state.form.get(name);
    if (value === undefined) throw badParameter(`The parameter ${name} is missing`);
    if (value === '') throw badParameter(`The parameter ${name} is empty`);
    return value;
  };
  ctx.state.fields = {
    grant_type: read('grant_type'),
    client_id: read('client_id'),
    client_secret: read('client_secret'),
    scope: read('scope'),
  };
  return next();
};

const checkGrantType: Step<TokenState> = (ctx, next) => {
  if (ctx.state.fields.grant_type !== 'none') {
    throw new ApiError('unsupported_grant_type', 'The grant_type must be none');
  }
  return next();
};

const refuseTooMany =
  ({ config }: ApiDeps, limits: TokenLimits): Step<TokenState> =>
  (ctx, next) => {
    const address = () => clientAddress(ctx.req, config.TRUSTED_PROXIES);
    limits.refuseTooMany(ctx.state.fields.client_id, address);
    return next();
  };

/** RFC 6749, section 5.1. */
const answerToken =
  ({ db, config, metrics }: ApiDeps, limits: TokenLimits): Step<TokenState> =>
  async (ctx) => {
    const { client_id: clientId, client_secret: clientSecret, scope } = ctx.state.fields;
    const scopes = [...new Set(scope.split(/\s+/))];
    const ttlSeconds = config.ACCESS_TOKEN_TTL_SECONDS;
    const minted = await mintAccessToken(db, { clientId, clientSecret }, scopes, ttlSeconds);
    switch (minted.outcome) {
      case 'invalid_client':
        await limits.countFailure(clientId, clientAddress(ctx.req, config.TRUSTED_PROXIES));
        throw new ApiError('invalid_client', 'The client credentials are not valid');
      case 'invalid_scope':
        throw new ApiError('invalid_scope', 'The account does not have all of the scopes asked for');
      case 'minted':
        limits.countToken(clientId);
        metrics.tokenMinted();
        ctx.body = {
          access_token: minted.token,
          token_type: 'Bearer',
          expires_in: Math.floor(ttlSeconds),
          scope: scopes.join(' '),
        };
    }
  };
