import type { Middleware } from 'koa';
import type { Db } from '../../redis/connection/db.js';
import { getAccount, signingSecretsScope } from '../../redis/records/accounts.js';
import {
  createSigningSecret,
  rotateSigningSecret,
  rotationWaitMs,
} from '../../redis/records/signingSecrets.js';
import { tooMany } from '../apiError.js';
import { composeSteps, type Step } from '../composeSteps.js';
import type { ApiDeps } from '../deps.js';
import { auditCall } from '../steps/auditCall.js';
import type { TokenState } from '../steps/bearer.js';
import { insufficientScope } from '../steps/insufficientScope.js';
import { type PublisherState, publisherSteps } from '../steps/publisher.js';
import { presentOptionalTime } from './presentTime.js';

/** GET /push_notifications/signing_secret: shows the client's secret, which it has with or without a URL. */
export function signingSecretEndpoint(deps: ApiDeps): Middleware[] {
  return composeSteps<PublisherState>(...publisherSteps(deps.db), ...signingSecretSteps(deps));
}

/** Returns the steps that follow once the caller and the client are known. */
export function signingSecretSteps(deps: ApiDeps): Step<PublisherState>[] {
  const { db, secretBox } = deps;
  return [
    requireSigningSecretsScope(db),
    auditCall(deps, { what: 'signing secret read', isRead: true }),
    async (ctx) => {
      ctx.body = { signing_secret: await createSigningSecret(db, secretBox, ctx.state.client.clientToken) };
    },
  ];
}

/** POST /push_notifications/signing_secret: makes a new one; at most ten previous ones still sign for 24 h each. */
export function rotateSigningSecretEndpoint(deps: ApiDeps): Middleware[] {
  return composeSteps<PublisherState>(...publisherSteps(deps.db), ...rotateSigningSecretSteps(deps));
}

/** Returns the steps that follow once the caller and the client are known. */
export function rotateSigningSecretSteps(deps: ApiDeps): Step<PublisherState>[] {
  return [
    requireSigningSecretsScope(deps.db),
    refuseWhileTenStillSign(deps.db),
    auditCall(deps, { what: 'signing secret rotate' }),
    rotate(deps),
  ];
}

/** Runs before the audit: a flood of refused calls must not displace the entries of carried out calls. */
const refuseWhileTenStillSign =
  (db: Db): Step<PublisherState> =>
  async (ctx, next) => {
    const waitMs = await rotationWaitMs(db, ctx.state.client.clientToken);
    if (waitMs > 0) throw tooManyRotations(waitMs);
    await next();
  };

const rotate =
  ({ db, secretBox, notices }: ApiDeps): Step<PublisherState> =>
  async (ctx) => {
    const { clientToken } = ctx.state.client;
    const rotated = await rotateSigningSecret(db, secretBox, clientToken);
    if (rotated.outcome === 'too_many') throw tooManyRotations(rotated.waitMs);
    notices.tell(clientToken);
    ctx.body = {
      signing_secret: rotated.signingSecret,
      previous_valid_until: presentOptionalTime(rotated.previousValidUntilMs),
    };
  };

const tooManyRotations = (waitMs: number) =>
  tooMany('Ten previous signing secrets still sign, for 24 h each', waitMs);

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
