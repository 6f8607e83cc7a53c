/** The one URL of an account for notices: the registration of the client that gets them (contract, section 5b). */
import type { Middleware } from 'koa';
import { z } from 'zod';
import { needsLookup } from '../../outgoing/target.js';
import type { Db } from '../../redis/connection/db.js';
import { getAccount } from '../../redis/records/accounts.js';
import { noticesClientOf, removeNoticesUrl, setNoticesUrl } from '../../redis/records/notices.js';
import { getRegistration } from '../../redis/records/registrations.js';
import { urlWithoutQuery } from '../../urlWithoutQuery.js';
import { ApiError } from '../apiError.js';
import { composeSteps, type Step } from '../composeSteps.js';
import type { ApiDeps } from '../deps.js';
import { limitAccount } from '../steps/accountRate.js';
import { auditCall } from '../steps/auditCall.js';
import { requireToken } from '../steps/bearer.js';
import { checkedBody } from '../steps/body/checkedBody.js';
import { readBody } from '../steps/body/readBody.js';
import { readJson } from '../steps/body/readJson.js';
import { checkUrl } from '../steps/checkUrl.js';
import { noStore, type PublisherState, type RegistrationState } from '../steps/publisher.js';
import { refuseUnknownParameters } from '../steps/readQuery.js';
import { presentRegistration } from './pushNotifications.js';
import { rotateSigningSecretSteps, signingSecretSteps } from './signingSecret.js';

/** PUT /notices: sets or replaces the URL. */
export function setNoticesUrlEndpoint(deps: ApiDeps): Middleware[] {
  return composeSteps<PutState>(
    ...noticesSteps(deps.db),
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

/** Returns the first steps of each call: they find the client that gets the account's notices, as state.client. */
function noticesSteps(db: Db): Step<PublisherState>[] {
  return [
    noStore,
    requireToken(db),
    async (ctx, next) => {
      refuseUnknownParameters(ctx, []);
      const { accountId } = ctx.state.token;
      const account = await getAccount(db, accountId);
      ctx.state.client = {
        clientToken: noticesClientOf({ accountId, scopes: account?.scopes ?? [] }),
        accountId,
      };
      await next();
    },
  ];
}

interface PutState extends PublisherState {
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
  ({ db, secretBox, durability, catchUps }: ApiDeps): Step<PutState> =>
  async (ctx) => {
    const { client, url } = ctx.state;
    const { wakeCatchUp } = await setNoticesUrl(db, secretBox, client.accountId, url);
    await durability.reached(client.clientToken);
    if (wakeCatchUp) catchUps.signal(client.clientToken);
    ctx.body = await presentRegistration(db, await noticesRegistration(db, client));
  };

/** GET /notices: shows the URL, and whether its receiver accepts notices. */
export function noticesUrlEndpoint({ db }: ApiDeps): Middleware[] {
  return composeSteps<NoticesState>(...noticesSteps(db), requireNoticesUrl(db), async (ctx) => {
    ctx.body = await presentRegistration(db, ctx.state.registration);
  });
}

type NoticesState = PublisherState & RegistrationState;

const requireNoticesUrl =
  (db: Db): Step<NoticesState> =>
  async (ctx, next) => {
    ctx.state.registration = await noticesRegistration(db, ctx.state.client);
    await next();
  };

/** @throws ApiError 404 */
async function noticesRegistration(db: Db, { clientToken }: PublisherState['client']) {
  const found = await getRegistration(db, clientToken);
  if (!found) throw new ApiError('no_notices_url', 'The account has no url for notices');
  return found;
}

/** DELETE /notices: removes the URL with its signing secrets, and cancels notices that are not delivered yet. */
export function removeNoticesUrlEndpoint(deps: ApiDeps): Middleware[] {
  const { db, durability } = deps;
  return composeSteps<NoticesState>(
    ...noticesSteps(db),
    requireNoticesUrl(db),
    auditCall<NoticesState>(deps, {
      what: 'notices url removed',
      about: ({ registration }) => ({ url: urlWithoutQuery(registration.url) }),
    }),
    async (ctx) => {
      const { registration } = ctx.state;
      const removed = await removeNoticesUrl(db, registration.clientToken);
      await durability.reached(registration.clientToken);
      ctx.body = { removed_url: removed ?? registration.url };
    },
  );
}

/** GET /notices/signing_secret: shows the secret that verifies the account's notices. */
export function noticesSecretEndpoint(deps: ApiDeps): Middleware[] {
  const { db } = deps;
  return composeSteps<NoticesState>(...noticesSteps(db), requireNoticesUrl(db), ...signingSecretSteps(deps));
}

/** POST /notices/signing_secret: makes a new one; previous ones still sign for 24 h each, at most ten of them. */
export function rotateNoticesSecretEndpoint(deps: ApiDeps): Middleware[] {
  const { db } = deps;
  return composeSteps<NoticesState>(
    ...noticesSteps(db),
    requireNoticesUrl(db),
    ...rotateSigningSecretSteps(deps),
  );
}
