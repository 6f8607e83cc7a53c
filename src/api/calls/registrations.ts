import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { register, requireUnregistered } from '../../acts/registrations.js';
import { ownClient } from '../../acts/subjects.js';
import { requestUrl, showUrlRequest } from '../../acts/urlRequests.js';
import { badParameter } from '../../http/apiError.js';
import { required } from '../../http/query.js';
import { oneOfMany, reasonText, time, urlText, yesOrNo } from '../../http/schemas.js';
import { needsLookup } from '../../outgoing/target.js';
import { isRedisUnavailable } from '../../redis/connection/unavailable.js';
import { markAnswered } from '../../redis/records/registrations.js';
import { urlRequestStates } from '../../redis/records/urlRequests.js';
import { actorOf } from '../actor.js';
import { clientCall, clientParameter, declareCall } from '../call.js';
import type { ApiDeps } from '../deps.js';
import { urlCodes } from '../steps/checkUrl.js';
import { bearerToken } from '../steps/publisher.js';

export const registerPushNotificationsCall = declareCall({
  act: register,
  route: 'POST /register_push_notifications',
  summary: 'Register the URL of a client',
  description:
    'Sets the one URL to which a client’s notifications go. It can be set once: an operator changes or removes it. Percent-encode the URL once. Ask for a token with the scope `push_notifications`; it may also be given as the parameter `access_token`, but not both ways. Calls with a host name in the URL count towards the account’s rate `names`. With `verify=true` the receiver gets a test notification, which it must accept, then one with a wrong signature, which it must refuse with a 4xx but 429. If it does not, the answer is 400 `receiver_not_verified`, and no URL is stored. Such a call takes up to 50 s, and counts as two that send something.',
  after503: 'repeat it unchanged: it then answers 200, also if the first call has stored the URL.',
  security: [{ bearer: [] }, { accessToken: [] }],
  query: z.object({
    client_token: clientParameter,
    url: urlText.describe('An absolute https URL.'),
    verify: yesOrNo(false, 'Whether the receiver must prove first that it verifies signatures.').optional(),
  }),
  result: { what: 'Registered.', schema: z.object({ success: yesOrNo(true), url: urlText }) },
  codes: ['already_registered', ...urlCodes, 'receiver_not_verified', 'invalid_client_token'],
  rate: 'names',
  answer: async (deps, { ctx, parameters }) => {
    const bearer = bearerToken(ctx);
    if (bearer !== undefined && parameters.has('access_token'))
      throw badParameter('The access_token must be given either as a parameter or as a header, not as both');
    const givenToken = bearer ?? required(parameters, 'access_token');
    const clientToken = required(parameters, 'client_token');
    const url = required(parameters, 'url');
    const verify = parameters.get('verify') ?? 'false';
    if (!/^(true|false)$/.test(verify)) throw badParameter('The parameter verify must be true or false');
    const token = await deps.findToken(givenToken);
    const { accountId } = token;
    const client = await ownClient(deps.db, { clientToken, accountId }, 'invalid_client_token');
    const actor = actorOf(deps, { ctx, token, client });
    // Refused before it counts.
    await requireUnregistered(actor, { client, url });
    if (needsLookup(url)) await deps.countCall(ctx, 'names', accountId);
    const { nonce, ...done } = await register(actor, { client, url, verify: verify === 'true' });
    ctx.res.once('finish', () => void markAnsweredSoon(deps, clientToken, nonce));
    return done;
  },
});

/** Runs after the 200 was sent; until the mark is written a repeat would get 200 as well. */
async function markAnsweredSoon(deps: ApiDeps, clientToken: string, nonce: string, tries = 8): Promise<void> {
  try {
    await markAnswered(deps.db, clientToken, nonce);
  } catch (err) {
    if (tries > 1 && isRedisUnavailable(err)) {
      await sleep(400);
      return markAnsweredSoon(deps, clientToken, nonce, tries - 1);
    }
    deps.log.warn({ client_token: clientToken }, 'a registration could not be marked as answered');
  }
}

const body = z.strictObject({ url: z.string().min(1), reason: reasonText });

const shown = z.object({
  url: urlText,
  reason: reasonText,
  state: oneOfMany(urlRequestStates),
  asked_at: time(),
  until: time('Until when it waits, or its answer is shown.'),
});

export const requestUrlCall = clientCall({
  route: 'PUT /push_notifications/url_request',
  summary: 'Ask for another URL',
  description:
    'Asks the operators to replace the registered URL, which only they change. The URL keeps the rules of a registration. A request takes the place of the one before. It waits for 14 days, until an operator accepts or declines it, or is `void` once the URL changes otherwise. The account’s request headers stay behind with the former URL. A URL without a name to look up does not count there. One call in 5 s for each client, bursts of 8, together with `PUT /push_notifications/headers`.',
  after503: 'repeat it: a repeat takes the place of the first.',
  body: {
    schema: body,
    examples: { 'A new receiver': { url: 'https://cms.example.com/hooks/new', reason: 'we have moved' } },
  },
  result: { what: 'The request waits.', schema: shown },
  codes: ['not_registered', ...urlCodes],
  rate: 'names',
  countsIf: ({ url }) => needsLookup(url),
  act: requestUrl,
});

export const getUrlRequestCall = clientCall({
  route: 'GET /push_notifications/url_request',
  summary: 'Show the request for another URL',
  description: 'Shows the last request, and what became of it, for 14 days after it was answered.',
  result: { what: 'The request.', schema: shown },
  codes: ['no_url_request'],
  act: showUrlRequest,
});
