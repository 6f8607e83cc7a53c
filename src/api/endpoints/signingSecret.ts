import { z } from 'zod';
import type { Db } from '../../redis/connection/db.js';
import { getAccount, signingSecretsScope } from '../../redis/records/accounts.js';
import { createSigningSecret, rotateSigningSecret, rotationWaitMs } from '../../redis/records/secrets.js';
import { tooMany } from '../apiError.js';
import { clientEndpoint } from '../endpoint.js';
import { secretText, time } from '../reference/schemas.js';
import type { Step } from '../step.js';
import { auditCall } from '../steps/auditCall.js';
import { insufficientScope, type PublisherState, type TokenState } from '../steps/publisher.js';
import { presentOptionalTime } from './present.js';

export const shownSecret = z.object({ signing_secret: secretText });
export const rotatedSecret = shownSecret.extend({ previous_valid_until: time().nullable() });

export const signingSecretEndpoint = clientEndpoint<PublisherState>({
  method: 'get',
  path: '/push_notifications/signing_secret',
  operationId: 'getSigningSecret',
  tag: 'Endpoint',
  summary: 'Show the signing secret',
  description:
    'Shows the secret that verifies a client’s notifications. It exists before a URL is registered.',
  by: 'signingSecrets',
  answers: { 200: { what: 'The secret.', schema: shownSecret } },
  codes: [],
  steps: (deps) => [
    requireSigningSecretsScope(deps.db),
    auditCall(deps, { what: 'signing secret read', isRead: true, isSecurity: true }),
    async (ctx) => {
      const { clientToken } = ctx.state.client;
      ctx.body = {
        signing_secret: await deps.db.durably((db) => createSigningSecret(db, deps.secretBox, clientToken))
          .safe,
      };
    },
  ],
});

export const rotateSigningSecretEndpoint = clientEndpoint<PublisherState>({
  method: 'post',
  path: '/push_notifications/signing_secret',
  operationId: 'rotateSigningSecret',
  tag: 'Endpoint',
  summary: 'Make a new signing secret',
  description:
    'Makes a new secret. Previous ones still sign for 24 h each, at most ten of them: while ten do, the answer is 429.',
  after503: 'read the secret before you repeat the call: a repeat makes another one.',
  by: 'signingSecrets',
  answers: { 200: { what: 'The new secret.', schema: rotatedSecret } },
  codes: ['too_many_requests'],
  steps: (deps) => [
    requireSigningSecretsScope(deps.db),
    refuseWhileTenStillSign(deps.db),
    auditCall(deps, { what: 'signing secret rotate', isSecurity: true }),
    async (ctx) => {
      const { clientToken } = ctx.state.client;
      const rotated = await deps.db.durably((db) => rotateSigningSecret(db, deps.secretBox, clientToken))
        .safe;
      if (rotated.outcome === 'too_many') throw tooManyRotations(rotated.waitMs);
      deps.notices.tell(clientToken);
      ctx.body = {
        signing_secret: rotated.signingSecret,
        previous_valid_until: presentOptionalTime(rotated.previousValidUntilMs),
      };
    },
  ],
});

/** Runs before the audit: a flood of refused calls must not displace the entries of carried out calls. */
const refuseWhileTenStillSign =
  (db: Db): Step<PublisherState> =>
  async (ctx, next) => {
    const waitMs = await rotationWaitMs(db, ctx.state.client.clientToken);
    if (waitMs > 0) throw tooManyRotations(waitMs);
    await next();
  };

const tooManyRotations = (waitMs: number) =>
  tooMany(
    'Ten previous signing secrets still sign, for 24 h each',
    { name: 'rotations', calls: 10, windowSeconds: 86_400 },
    waitMs,
  );

/** Requires the scope if the account has it: tokens for general use are minted without it. */
export const requireSigningSecretsScope =
  (db: Db): Step<TokenState> =>
  async (ctx, next) => {
    const { accountId, scopes } = ctx.state.token;
    if (!scopes.includes(signingSecretsScope)) {
      const account = await getAccount(db, accountId);
      if (account?.scopes.includes(signingSecretsScope)) throw insufficientScope(signingSecretsScope);
    }
    await next();
  };
