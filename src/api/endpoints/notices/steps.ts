import type { Db } from '../../../redis/connection/db.js';
import { getNoticesUrl, type NoticesUrl } from '../../../redis/records/notices.js';
import { ApiError } from '../../apiError.js';
import type { Step } from '../../composeSteps.js';
import { requireToken, type TokenState } from '../../steps/bearer.js';
import { noStore } from '../../steps/publisher.js';
import { refuseUnknownParameters } from '../../steps/readQuery.js';

export type AccountState = TokenState;

export interface NoticesState {
  notices: NoticesUrl;
}

/** Returns the first steps of each call about the account itself. */
export function accountSteps(db: Db): Step<AccountState>[] {
  return [
    noStore,
    requireToken(db),
    async (ctx, next) => {
      refuseUnknownParameters(ctx, []);
      await next();
    },
  ];
}

/** Finds the account's notices URL, as state.notices; 404 if there is none. */
export const requireNoticesUrl =
  (db: Db): Step<AccountState & NoticesState> =>
  async (ctx, next) => {
    const notices = await getNoticesUrl(db, ctx.state.token.accountId);
    if (!notices) throw new ApiError('no_notices_url', 'The account has no url for notices');
    ctx.state.notices = notices;
    await next();
  };
