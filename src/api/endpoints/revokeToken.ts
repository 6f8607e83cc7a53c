import { z } from 'zod';
import { fingerprintOfOwn, revokeAccessToken } from '../../redis/records/accessTokens.js';
import { accountIdOf, areCredentials } from '../../redis/records/accounts.js';
import { ApiError } from '../apiError.js';
import { clientAddress } from '../clientAddress.js';
import { endpoint } from '../endpoint.js';
import { exampleOf, text } from '../reference/schemas.js';
import type { ApiDeps, Step } from '../step.js';
import { audit } from '../steps/auditCall.js';
import { formTypes, readForm } from '../steps/form.js';
import { createTokenLimits } from '../steps/limits.js';
import { type Credentials, fieldOf, logRefusal, noStore, takeBasic } from './accessToken.js';

const form = z.object({
  token: text('tok_4nV0').min(1),
  client_id: text('cid_7Qd2mVx0').min(1),
  client_secret: text('cs_4f0Zc1Yt8mJr6Kq2').min(1),
});

/** Ends a token before its time (RFC 7009). */
export const revokeTokenEndpoint = endpoint<Credentials>({
  method: 'post',
  path: '/oauth/revoke',
  operationId: 'revokeAccessToken',
  tag: 'Tokens',
  summary: 'Revoke an access token',
  description:
    'Ends an access token of the account immediately (RFC 7009). An unknown, expired or foreign token is answered 200 as well. Sessions of the console that the token has opened stay open. The credentials may come as `Authorization: Basic`.',
  after503: 'send it again.',
  body: {
    schema: form,
    types: formTypes,
    examples: { 'A token that is no longer needed': exampleOf(form) },
  },
  answers: { 200: { what: 'The token is not valid, or no longer.', schema: z.object({}) } },
  codes: [
    ...(['invalid_client', 'body_too_long', 'unsupported_media_type'] as const),
    ...(['too_many_requests', 'temporarily_unavailable'] as const),
  ],
  under: 'oauth',
  steps: (deps) => [noStore, logRefusal(deps), readForm, takeBasic, revoke(deps)],
});

function revoke(deps: ApiDeps): Step<Credentials> {
  const { db, config } = deps;
  const limits = createTokenLimits(db, config.TOKEN_RATE_PER_SECOND);
  return async (ctx) => {
    const token = fieldOf(ctx.state.form, 'token');
    const clientId = fieldOf(ctx.state.form, 'client_id');
    const clientSecret = fieldOf(ctx.state.form, 'client_secret');
    const address = clientAddress(ctx.req, config.TRUSTED_PROXIES);
    limits.refuseTooMany(clientId, () => address);
    if (!(await areCredentials(db, { clientId, clientSecret }))) {
      await limits.countFailure(clientId, address);
      throw new ApiError('invalid_client', 'The client credentials are not valid', ctx.state.challenge);
    }
    limits.countToken(clientId);
    const accountId = accountIdOf(clientId);
    const tokenFingerprint = await fingerprintOfOwn(db, accountId, token);
    if (tokenFingerprint !== undefined) {
      const { requestId } = ctx.state;
      const about = { client_id: clientId };
      const what = 'access token revoked';
      const call = { accountId, clientToken: '', what, address, tokenFingerprint, requestId, about };
      await audit(deps, call, { isSecurity: true });
      await db.durably((own) => revokeAccessToken(own, accountId, token)).safe;
    }
    ctx.body = {};
  };
}
