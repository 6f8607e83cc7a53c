import type { Middleware } from 'koa';
import type { Db } from '../../../redis/connection/db.js';
import { toldAccount } from '../../../redis/connection/keys.js';
import {
  createSigningSecret,
  rotateSigningSecret,
  rotationWaitMs,
} from '../../../redis/records/signingSecrets.js';
import type { ApiDeps } from '../../deps.js';
import { endpoint, type Step } from '../../endpoint.js';
import { auditCall } from '../../steps/auditCall.js';
import { presentOptionalTime } from '../presentTime.js';
import { requireSigningSecretsScope, tooManyRotations } from '../signingSecret.js';
import { type AccountState, accountSteps, type NoticesState, requireNoticesUrl } from './steps.js';

type SecretState = AccountState & NoticesState;

/** GET /notices/signing_secret: shows the secret that verifies the account's notices. */
export function noticesSecretEndpoint(deps: ApiDeps): Middleware[] {
  const { db, secretBox } = deps;
  return endpoint<SecretState>(
    ...accountSteps(db),
    requireNoticesUrl(db),
    requireSigningSecretsScope(db),
    auditCall(deps, { what: 'notices secret read', isRead: true }),
    async (ctx) => {
      const told = toldAccount(ctx.state.token.accountId);
      ctx.body = { signing_secret: await createSigningSecret(db, secretBox, told) };
    },
  );
}

/** POST /notices/signing_secret: makes a new one; previous ones still sign for 24 h each, at most ten of them. */
export function rotateNoticesSecretEndpoint(deps: ApiDeps): Middleware[] {
  return endpoint<SecretState>(
    ...accountSteps(deps.db),
    requireNoticesUrl(deps.db),
    requireSigningSecretsScope(deps.db),
    refuseWhileTenStillSign(deps.db),
    auditCall(deps, { what: 'notices secret rotate' }),
    rotate(deps),
  );
}

const refuseWhileTenStillSign =
  (db: Db): Step<SecretState> =>
  async (ctx, next) => {
    const waitMs = await rotationWaitMs(db, toldAccount(ctx.state.token.accountId));
    if (waitMs > 0) throw tooManyRotations(waitMs);
    await next();
  };

const rotate =
  ({ db, secretBox }: ApiDeps): Step<SecretState> =>
  async (ctx) => {
    const rotated = await rotateSigningSecret(db, secretBox, toldAccount(ctx.state.token.accountId));
    if (rotated.outcome === 'too_many') throw tooManyRotations(rotated.waitMs);
    ctx.body = {
      signing_secret: rotated.signingSecret,
      previous_valid_until: presentOptionalTime(rotated.previousValidUntilMs),
    };
  };
