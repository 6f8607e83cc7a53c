/** The one URL of an account for notices: the registration of the client that gets them (contract, section 5b). */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { idFromBytes } from '../../ids.js';
import { changedBody } from '../../notices/notices.js';
import { notificationRequest } from '../../outgoing/notification.js';
import { originOf } from '../../outgoing/target.js';
import type { Db } from '../../redis/connection/db.js';
import { getAccount } from '../../redis/records/accounts.js';
import { noticesClientOf, removeNoticesUrl, setNoticesUrl } from '../../redis/records/notices.js';
import { getRegistration, type Registration } from '../../redis/records/registrations.js';
import { signingSecrets } from '../../redis/records/secrets.js';
import { ApiError } from '../apiError.js';
import { accountEndpoint } from '../endpoint.js';
import { urlText } from '../reference/schemas.js';
import type { ApiDeps, Step } from '../step.js';
import { auditCall } from '../steps/auditCall.js';
import { checkNewUrl, urlCodes } from '../steps/checkUrl.js';
import { checked } from '../steps/json.js';
import { limitSends } from '../steps/limits.js';
import type { PublisherState, RegistrationState } from '../steps/publisher.js';
import { presentRegistration, registeredUrl } from './clients.js';
import {
  requireSigningSecretsScope,
  rotateSigningSecretEndpoint,
  signingSecretEndpoint,
} from './signingSecret.js';

const body = z.strictObject({ url: z.string().min(1) });

export const setNoticesUrlEndpoint = accountEndpoint<PutState>({
  method: 'put',
  path: '/notices',
  operationId: 'setNoticesUrl',
  tag: 'Notices',
  summary: 'Set the URL for notices',
  description:
    'Sets the URL to which the service sends a notice when an endpoint of one of the account’s clients (for the platform: of any client) fails, is suspended or recovers, and when a signing secret is rotated. A new URL replaces the previous one immediately; the signing secret stays. A URL without a name to look up does not count there. The previous URL is told once. One call in 5 s, bursts of 5.',
  by: 'signingSecrets',
  after503: 'repeat it: a repeat sets the same URL.',
  body: {
    schema: body,
    atMostBytes: 16 * 1024,
    examples: { 'Your receiver': { url: 'https://ops.example.com/hooks/notices' } },
  },
  answers: { 200: { what: 'The URL is set.', schema: registeredUrl } },
  codes: urlCodes,
  rate: 'names',
  steps: (deps) => [
    requireSigningSecretsScope(deps.db),
    findNoticesClient(deps.db),
    readUrl,
    ...checkNewUrl<PutState>(deps, ({ url }) => ({ value: url, raw: url })),
    limitSends(deps.db),
    auditCall<PutState>(deps, {
      what: 'notices url set',
      isSecurity: true,
      about: ({ url }) => ({ url: originOf(url) }),
    }),
    storeUrl(deps),
  ],
});

interface PutState extends PublisherState {
  json: unknown;
  url: string;
}

/** Finds the client that gets the account's notices, as state.client. */
export const findNoticesClient =
  (db: Db): Step<PublisherState> =>
  async (ctx, next) => {
    const { accountId } = ctx.state.token;
    const account = await getAccount(db, accountId);
    ctx.state.client = {
      clientToken: noticesClientOf({ accountId, scopes: account?.scopes ?? [] }),
      accountId,
    };
    await next();
  };

const readUrl: Step<PutState> = async (ctx, next) => {
  ctx.state.url = checked(body, ctx.state.json).url;
  await next();
};

const storeUrl =
  (deps: ApiDeps): Step<PutState> =>
  async (ctx) => {
    const { db, secretBox, catchUps } = deps;
    const { client, url } = ctx.state;
    const before = await getRegistration(db, client.clientToken);
    const tellOld = before && before.url !== url && (await preparedFarewell(deps, before, 'replaced'));
    const { wakeCatchUp } = await db.durably((own) => setNoticesUrl(own, secretBox, client.accountId, url))
      .safe;
    if (wakeCatchUp) catchUps.signal(client.clientToken);
    if (tellOld) void tellOld();
    ctx.body = await presentRegistration(db, await noticesRegistration(db, client));
  };

/**
 * Prepares the one message to a URL that gets no more notices: somebody with a stolen token must not silence it unnoticed.
 * It is signed before its secrets may be gone, and sent once, without retries: a notice would go to the new URL.
 */
async function preparedFarewell(
  { db, secretBox, sender, log }: ApiDeps,
  { clientToken, accountId, url }: Registration,
  change: 'replaced' | 'removed',
): Promise<() => Promise<void>> {
  const secrets = await signingSecrets(db, secretBox, clientToken);
  const at = Date.now();
  const notificationId = idFromBytes(randomBytes(16));
  const body = changedBody({ accountId, at: at + db.clockOffsetMs(), change });
  const request = notificationRequest({ notificationId, clientToken, platformId: '', body }, secrets, at);
  return async () => {
    const result = await sender.post({ url, client: clientToken, ...request }).catch(() => undefined);
    const { status, error } = result ?? {};
    log.info({ client_token: clientToken, change, status, error }, 'the previous URL for notices was told');
  };
}

export const noticesUrlEndpoint = accountEndpoint<NoticesState>({
  method: 'get',
  path: '/notices',
  operationId: 'getNoticesUrl',
  tag: 'Notices',
  summary: 'Show the URL for notices',
  description: 'Shows the URL, and the state of its endpoint.',
  answers: { 200: { what: 'The URL.', schema: registeredUrl } },
  codes: ['no_notices_url'],
  steps: ({ db }) => [
    findNoticesClient(db),
    requireNoticesUrl(db),
    async (ctx) => {
      ctx.body = await presentRegistration(db, ctx.state.registration);
    },
  ],
});

type NoticesState = PublisherState & RegistrationState;

export const requireNoticesUrl =
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

export const removeNoticesUrlEndpoint = accountEndpoint<NoticesState>({
  method: 'delete',
  path: '/notices',
  operationId: 'removeNoticesUrl',
  tag: 'Notices',
  summary: 'Remove the URL for notices',
  description:
    'Removes the URL and its signing secrets. Notices that were not delivered yet are cancelled. The URL is told once. One call in 5 s, bursts of 5.',
  by: 'signingSecrets',
  after503: 'repeat it: 404 then means that the URL is removed.',
  answers: { 200: { what: 'The URL is removed.', schema: z.object({ removed_url: urlText }) } },
  codes: ['no_notices_url', 'too_many_requests'],
  steps: (deps) => [
    requireSigningSecretsScope(deps.db),
    findNoticesClient(deps.db),
    requireNoticesUrl(deps.db),
    limitSends(deps.db),
    auditCall<NoticesState>(deps, {
      what: 'notices url removed',
      isSecurity: true,
      about: ({ registration }) => ({ url: originOf(registration.url) }),
    }),
    async (ctx) => {
      const { registration } = ctx.state;
      const tellOld = await preparedFarewell(deps, registration, 'removed');
      const removed = await deps.db.durably((own) => removeNoticesUrl(own, registration.clientToken)).safe;
      void tellOld();
      ctx.body = { removed_url: removed ?? registration.url };
    },
  ],
});

export const noticesSecretEndpoint = accountEndpoint<NoticesState>({
  method: 'get',
  path: '/notices/signing_secret',
  operationId: 'getNoticesSecret',
  tag: 'Notices',
  summary: 'Show the signing secret of the notices',
  description: 'Shows the secret that verifies the account’s notices. The first PUT /notices makes it.',
  by: 'signingSecrets',
  answers: signingSecretEndpoint.answers,
  codes: ['no_notices_url'],
  steps: (deps) => [
    findNoticesClient(deps.db),
    requireNoticesUrl(deps.db),
    ...signingSecretEndpoint.steps(deps),
  ],
});

export const rotateNoticesSecretEndpoint = accountEndpoint<NoticesState>({
  method: 'post',
  path: '/notices/signing_secret',
  operationId: 'rotateNoticesSecret',
  tag: 'Notices',
  summary: 'Make a new signing secret of the notices',
  description:
    'Makes a new secret. Previous secrets still sign for 24 h each, at most ten of them; while ten do, the answer is 429.',
  after503: rotateSigningSecretEndpoint.after503,
  by: 'signingSecrets',
  answers: rotateSigningSecretEndpoint.answers,
  codes: ['no_notices_url', 'too_many_requests'],
  steps: (deps) => [
    findNoticesClient(deps.db),
    requireNoticesUrl(deps.db),
    ...rotateSigningSecretEndpoint.steps(deps),
  ],
});
