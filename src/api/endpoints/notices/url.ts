import type { Middleware } from 'koa';
import { z } from 'zod';
import { needsLookup } from '../../../outgoing/target.js';
import { toldAccount } from '../../../redis/connection/keys.js';
import { type NoticesUrl, removeNoticesUrl, setNoticesUrl } from '../../../redis/records/notices.js';
import { urlWithoutQuery } from '../../../urlWithoutQuery.js';
import { composeSteps, type Step } from '../../composeSteps.js';
import type { ApiDeps } from '../../deps.js';
import { limitAccount } from '../../steps/accountRate.js';
import { auditCall } from '../../steps/auditCall.js';
import { checkedBody } from '../../steps/body/checkedBody.js';
import { readBody } from '../../steps/body/readBody.js';
import { readJson } from '../../steps/body/readJson.js';
import { checkUrl } from '../../steps/checkUrl.js';
import { presentOptionalTime, presentTime } from '../presentTime.js';
import { type AccountState, accountSteps, type NoticesState, requireNoticesUrl } from './steps.js';

/** PUT /notices: sets or replaces the URL that gets the notices of the account. */
export function setNoticesUrlEndpoint(deps: ApiDeps): Middleware[] {
  return composeSteps<PutState>(
    ...accountSteps(deps.db),
    readBody(bodyAtMostBytes),
    readJson,
    readUrl,
    limitLookups(deps),
    checkTheUrl(deps),
    auditCall<PutState>(deps, {
      what: 'notices url set',
      about: ({ url }) => ({ url: urlWithoutQuery(url) }),
    }),
    storeUrl(deps),
  );
}

interface PutState extends AccountState {
  body: Buffer;
  json: unknown;
  url: string;
}

const bodyAtMostBytes = 16 * 1024;

/** The schema of the body; the API's description is generated from it. */
export const noticesBody = z.strictObject({ url: z.string().min(1) });

const readUrl: Step<PutState> = async (ctx, next) => {
  ctx.state.url = checkedBody(noticesBody, ctx.state.json).url;
  await next();
};

function limitLookups(deps: ApiDeps): Step<PutState> {
  const limit = limitAccount(deps, 'names');
  return (ctx, next) => (needsLookup(ctx.state.url) ? limit(ctx, next) : next());
}

const checkTheUrl =
  (deps: ApiDeps): Step<PutState> =>
  async (ctx, next) => {
    const { url } = ctx.state;
    await checkUrl(deps, { value: url, raw: url });
    await next();
  };

const storeUrl =
  ({ db, secretBox, durability }: ApiDeps): Step<PutState> =>
  async (ctx) => {
    const { token, url } = ctx.state;
    const stored = await setNoticesUrl(db, secretBox, token.accountId, url);
    await durability.reached(toldAccount(token.accountId));
    ctx.body = present(stored);
  };

/** GET /notices: shows the URL, and whether its receiver accepts notices. */
export function noticesUrlEndpoint({ db }: ApiDeps): Middleware[] {
  return composeSteps<AccountState & NoticesState>(
    ...accountSteps(db),
    requireNoticesUrl(db),
    async (ctx) => {
      ctx.body = present(ctx.state.notices);
    },
  );
}

/** DELETE /notices: removes the URL with its signing secrets; notices that were not delivered yet are cancelled. */
export function removeNoticesUrlEndpoint(deps: ApiDeps): Middleware[] {
  const { db, durability } = deps;
  return composeSteps<AccountState & NoticesState>(
    ...accountSteps(db),
    requireNoticesUrl(db),
    auditCall<AccountState & NoticesState>(deps, {
      what: 'notices url removed',
      about: ({ notices }) => ({ url: urlWithoutQuery(notices.url) }),
    }),
    async (ctx) => {
      const { token, notices } = ctx.state;
      const url = await removeNoticesUrl(db, token.accountId);
      await durability.reached(toldAccount(token.accountId));
      ctx.body = { removed_url: url ?? notices.url };
    },
  );
}

function present(notices: NoticesUrl) {
  return {
    url: notices.url,
    set_at: presentTime(notices.setAtMs),
    last_success_at: presentOptionalTime(notices.lastSuccessAtMs),
    last_failure_at: presentOptionalTime(notices.lastFailureAtMs),
    last_error: notices.lastError ?? null,
  };
}
