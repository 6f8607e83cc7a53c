import type { Middleware } from 'koa';
import { recordCall } from '../../../redis/records/auditCalls.js';
import {
  type ConsoleAccess,
  consoleAccesses,
  createConsoleLink,
} from '../../../redis/records/consoleSessions.js';
import { badParameter } from '../../apiError.js';
import { clientAddress } from '../../clientAddress.js';
import { composeSteps, type Step } from '../../composeSteps.js';
import type { ApiDeps } from '../../deps.js';
import { presentTime } from '../../endpoints/presentTime.js';
import { limitAccount } from '../../steps/accountRate.js';
import { requireToken, type TokenState } from '../../steps/bearer.js';
import { noStore } from '../../steps/publisher.js';
import { parametersOf, refuseUnknownParameters, required } from '../../steps/readQuery.js';
import { linkUrl } from './linkUrl.js';
import { publicOrigin } from './publicOrigin.js';

interface LinkState extends TokenState {
  access: ConsoleAccess;
}

/** POST /console_sessions: makes a link that opens the account's console once, within 15 minutes. */
export function createLinkEndpoint(deps: ApiDeps): Middleware[] {
  return composeSteps<LinkState>(
    noStore,
    requireToken(deps.db),
    limitAccount(deps, 'console') as Step<LinkState>,
    readAccess,
    audit(deps),
    answerLink(deps),
  );
}

const readAccess: Step<LinkState> = async (ctx, next) => {
  refuseUnknownParameters(ctx, ['access']);
  const access = parametersOf(ctx).has('access') ? required(ctx, 'access').value : 'full';
  if (!isAccess(access)) throw badParameter(`access must be one of ${consoleAccesses.join(', ')}`);
  ctx.state.access = access;
  await next();
};

const isAccess = (value: string): value is ConsoleAccess =>
  (consoleAccesses as readonly string[]).includes(value);

/** The call is about no single client: the audit entry names only the account. */
const audit =
  ({ db, config, log }: ApiDeps): Step<LinkState> =>
  async (ctx, next) => {
    const { token, access, requestId } = ctx.state;
    const address = clientAddress(ctx.req, config.TRUSTED_PROXIES);
    const { accountId, fingerprint: tokenFingerprint } = token;
    const call = { accountId, clientToken: '', what: 'console link', address, tokenFingerprint, requestId };
    await recordCall(db, { ...call, about: { access } }, { isRead: false });
    log.info(
      { account_id: accountId, access, address, token_fingerprint: tokenFingerprint, request_id: requestId },
      'a console link was made',
    );
    await next();
  };

const answerLink =
  ({ db, config }: ApiDeps): Step<LinkState> =>
  async (ctx) => {
    const { token, access } = ctx.state;
    const origin = publicOrigin(ctx.req, config);
    const link = await createConsoleLink(db, { ...token, access });
    ctx.body = { url: linkUrl(origin, link.token), expires_at: presentTime(link.expiresAtMs) };
  };
