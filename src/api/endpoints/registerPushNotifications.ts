import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { originOf } from '../../outgoing/target.js';
import { withTimeout } from '../../promises.js';
import { isRedisUnavailable } from '../../redis/connection/unavailable.js';
import { tellStateChange } from '../../redis/records/endpoint.js';
import {
  answerWithinMs,
  getRegistration,
  markAnswered,
  register,
} from '../../redis/records/registrations.js';
import { ApiError, badParameter, unavailable } from '../apiError.js';
import { clientParameter, endpoint } from '../endpoint.js';
import { urlText } from '../reference/schemas.js';
import type { ApiDeps, Parameter, Step, StepContext } from '../step.js';
import { auditCall } from '../steps/auditCall.js';
import { checkNewUrl, urlCodes } from '../steps/checkUrl.js';
import { bearerToken, type PublisherState, requireOwnClient, requireToken } from '../steps/publisher.js';
import { parametersOf, required } from '../steps/query.js';

export const registerPushNotificationsEndpoint = endpoint<RegistrationState>({
  method: 'post',
  path: '/register_push_notifications',
  operationId: 'registerPushNotifications',
  tag: 'Registration',
  summary: 'Register the URL of a client',
  description:
    'Sets the one URL to which a client’s notifications go. It can be set once: an operator changes or removes it. Percent-encode the URL once. Ask for a token with the scope `push_notifications`; it may also be given as the parameter `access_token`, but not both ways. Calls with a host name in the URL count towards the account’s rate `names`.',
  after503: 'repeat it unchanged: it then answers 200, also if the first call has stored the URL.',
  security: 'tokenAnywhere',
  query: z.object({ client_token: clientParameter, url: urlText.describe('An absolute https URL.') }),
  answers: {
    200: { what: 'Registered.', schema: z.object({ success: z.literal(true), url: urlText }) },
  },
  codes: [
    ...(['already_registered', ...urlCodes] as const),
    ...(['invalid_token', 'invalid_client_token', 'too_many_requests'] as const),
    'temporarily_unavailable',
  ],
  rate: 'names',
  steps: (deps) => [
    requireParameters,
    requireToken<RegistrationState>(deps.db, givenToken),
    requireOwnClient(deps.db, { refusal: 'invalid_client_token' }),
    refuseRegistered(deps),
    ...checkNewUrl<RegistrationState>(deps, ({ url }) => url),
    auditCall<RegistrationState>(deps, {
      what: 'registration',
      isSecurity: true,
      about: ({ url }) => ({ url: originOf(url.value) }),
    }),
    storeUrl(deps),
  ],
});

interface RegistrationState extends PublisherState {
  url: Parameter;
}

/** Runs before anything is looked up. */
const requireParameters: Step<RegistrationState> = (ctx, next) => {
  givenToken(ctx);
  required(ctx, 'client_token');
  ctx.state.url = required(ctx, 'url');
  return next();
};

function givenToken(ctx: StepContext<unknown>): string {
  const bearer = bearerToken(ctx);
  if (bearer !== undefined && parametersOf(ctx).has('access_token')) {
    throw badParameter('The access_token must be given either as a parameter or as a header, not as both');
  }
  return bearer ?? required(ctx, 'access_token').value;
}

/** Runs before the url is checked. It leaves a url that an equal unanswered call has stored to storeUrl. */
const refuseRegistered =
  ({ db, config }: ApiDeps): Step<RegistrationState> =>
  async (ctx, next) => {
    const there = await getRegistration(db, ctx.state.client.clientToken);
    const mayBeOurs =
      there &&
      !there.answered &&
      there.url === ctx.state.url.value &&
      there.accountId === ctx.state.token.accountId;
    if (there && !mayBeOurs) throw alreadyRegistered(config.OPERATOR_CONTACT);
    await next();
  };

const alreadyRegistered = (contact: string): ApiError =>
  new ApiError('already_registered', `A url is already registered. Please contact ${contact}`);

const storeUrl =
  (deps: ApiDeps): Step<RegistrationState> =>
  async (ctx) => {
    const { db, secretBox, config } = deps;
    const url = ctx.state.url.value;
    const { clientToken } = ctx.state.client;
    const { accountId } = ctx.state.token;
    const stored = db.durably((own) => register(own, secretBox, { clientToken, accountId, url }));
    const result = await stored.answer;
    if (result.outcome === 'taken') throw alreadyRegistered(config.OPERATOR_CONTACT);
    // From here on the caller gets 200, or 503 while a repeat may still take this over, but never later.
    const leftMs = result.storingSinceMs + answerWithinMs - Date.now();
    await withTimeout(stored.safe, leftMs, () => {
      throw unavailable(tooLate);
    });
    if (Date.now() - result.storingSinceMs > answerWithinMs) throw unavailable(tooLate);
    tellStateChange(deps, { clientToken, from: 'not_registered', to: 'active', why: 'registered' });
    ctx.res.once('finish', () => void markAnsweredSoon(deps, clientToken, result.nonce));
    if (result.wakeCatchUp) deps.catchUps.signal(clientToken);
    ctx.body = { success: true, url };
  };

const tooLate = 'the registration was not on disk in time';
const markTries = 8;
const markPauseMs = 100;

/** Runs after the 200 was sent; until this is written a repeat would get 200 as well. */
async function markAnsweredSoon({ db, log }: ApiDeps, clientToken: string, nonce: string): Promise<void> {
  for (let tried = 1; ; tried++) {
    try {
      await markAnswered(db, clientToken, nonce);
      return;
    } catch (err) {
      if (tried === markTries || !isRedisUnavailable(err)) {
        log.warn({ client_token: clientToken }, 'a registration could not be marked as answered');
        return;
      }
      await sleep(markPauseMs * tried);
    }
  }
}
