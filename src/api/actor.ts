/** The publisher, or the platform, that makes a call: who that is to acts. */
import type { Actor } from '../acts/act.js';
import type { Subject } from '../acts/subjects.js';
import { ApiError, unavailable } from '../http/apiError.js';
import type { ApiContext } from '../http/context.js';
import { ignore } from '../redis/connection/unavailable.js';
import type { AccessToken } from '../redis/records/accessTokens.js';
import { platformScope } from '../redis/records/accounts.js';
import { reportStateChange } from '../redis/records/endpoint.js';
import { secretBoxOf } from '../redis/records/installation.js';
import type { ApiDeps } from './deps.js';
import { admitCall, auditCall } from './steps/auditCall.js';
import { checkUrl } from './steps/checkUrl.js';
import { maySeeSecrets, requireScope, requireSigningSecretsScope } from './steps/publisher.js';

export function actorOf(
  deps: ApiDeps,
  request: { ctx: ApiContext; token: AccessToken; client?: Subject },
): Actor {
  const { ctx, token, client } = request;
  return {
    by: 'publisher',
    name: `token ${token.fingerprint}`,
    maySeeSecrets: () => maySeeSecrets(deps.db, token),
    accountId: token.accountId,
    async permit({ publisher: needed }, about) {
      if (needed === undefined) throw new ApiError('insufficient_scope', 'Only operators may do this');
      if (needed === 'platform') requireScope(token, platformScope);
      if (needed === 'signingSecrets') await requireSigningSecretsScope(deps.db, token);
      const isPlatforms = ['platform', 'orPlatform'].includes(needed) && token.scopes.includes(platformScope);
      if (about && about.accountId !== token.accountId && !isPlatforms) throw new ApiError('unknown_client');
    },
    async admit(act, { after, about = after as Record<string, unknown> }, counting = {}) {
      if (client === undefined) await auditCall(deps, request, act, { about, ...counting });
      else await admitCall(deps, { ctx, token, client }, act, { about, ...counting });
    },
    change: (write) => deps.db.durably(write).safe,
    async wake(clientToken) {
      void deps.catchUps.alarm(clientToken);
      return true;
    },
    claimNotices: async (clientToken) => deps.notices.claimSoon(clientToken),
    report: (change) => reportStateChange(deps, change),
    countCancelled: (count) => deps.metrics.ended('cancelled', count),
    countPiece: deps.countPieces('records', token.accountId),
    unlessEnding: (work) => answeredBefore(deps.closing, work),
    checkUrl: (url) => checkUrl(deps, url, ctx.querystring),
    shownUrl: (url) => url,
    warn: ignore,
    log: deps.log,
    config: () => deps.config,
    db: async () => deps.db,
    secretBox: () => secretBoxOf(deps.db, deps.config.SECRETS_KEY),
    sender: async () => deps.sender,
  };
}

async function answeredBefore<T>(closing: AbortSignal | undefined, work: Promise<T>): Promise<T> {
  const answered = new AbortController();
  const ends = new Promise<never>((_, reject) => {
    const end = () => reject(unavailable('the process ends'));
    if (closing?.aborted) end();
    closing?.addEventListener('abort', end, { signal: answered.signal });
  });
  return await Promise.race([work, ends]).finally(() => answered.abort());
}
