import type { Middleware } from 'koa';
import { toldAccount } from '../../../redis/connection/keys.js';
import { createSigningSecret } from '../../../redis/records/signingSecrets.js';
import { composeSteps } from '../../composeSteps.js';
import type { ApiDeps } from '../../deps.js';
import { auditCall } from '../../steps/auditCall.js';
import { refuseWhileTenStillSign, requireSigningSecretsScope, rotateOrRefuse } from '../signingSecret.js';
import { type AccountState, accountSteps, type NoticesState, requireNoticesUrl } from './steps.js';

type SecretState = AccountState & NoticesState;

/** GET /notices/signing_secret: shows the secret that verifies the account's notices. */
export function noticesSecretEndpoint(deps: ApiDeps): Middleware[] {
  const { db, secretBox } = deps;
  return composeSteps<SecretState>(
    ...accountSteps(db),
    requireNoticesUrl(db),
    requireSigningSecretsScope(db),
    auditCall(deps, { what: 'notices secret read', isRead: true }),
    async (ctx) => {
      ctx.body = { signing_secret: await createSigningSecret(db, secretBox, ownerOf(ctx.state)) };
    },
  );
}

/** POST /notices/signing_secret: makes a new one; previous ones still sign for 24 h each, at most ten of them. */
export function rotateNoticesSecretEndpoint(deps: ApiDeps): Middleware[] {
  return composeSteps<SecretState>(
    ...accountSteps(deps.db),
    requireNoticesUrl(deps.db),
    requireSigningSecretsScope(deps.db),
    refuseWhileTenStillSign(deps.db, ownerOf),
    auditCall(deps, { what: 'notices secret rotate' }),
    async (ctx) => {
      ctx.body = await rotateOrRefuse(deps, ownerOf(ctx.state));
    },
  );
}

const ownerOf = ({ token }: SecretState): string => toldAccount(token.accountId);
