import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { verifyReceiver } from '../../acts/receiverChecks.js';
import { ownClient } from '../../acts/subjects.js';
import { ApiError, badParameter, unavailable } from '../../http/apiError.js';
import { required } from '../../http/query.js';
import { urlText, yesOrNo } from '../../http/schemas.js';
import { needsLookup, originOf } from '../../outgoing/target.js';
import { withTimeout } from '../../promises.js';
import { isRedisUnavailable } from '../../redis/connection/unavailable.js';
import { reportStateChange } from '../../redis/records/endpoint.js';
import {
  answerWithinMs,
  getRegistration,
  markAnswered,
  register,
} from '../../redis/records/registrations.js';
import { actorOf } from '../actor.js';
import { answeredBefore, clientParameter, declareCall } from '../call.js';
import type { ApiDeps } from '../deps.js';
import { auditCall } from '../steps/auditCall.js';
import { checkUrl, urlCodes } from '../steps/checkUrl.js';
import { bearerToken, maySeeSecrets } from '../steps/publisher.js';

export const registerPushNotificationsCall = declareCall({
  act: verifyReceiver,
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
    const { db, config } = deps;
    const bearer = bearerToken(ctx);
    if (bearer !== undefined && parameters.has('access_token')) {
      throw badParameter('The access_token must be given either as a parameter or as a header, not as both');
    }
    const givenToken = bearer ?? required(parameters, 'access_token');
    const clientToken = required(parameters, 'client_token');
    const url = required(parameters, 'url');
    const verify = parameters.get('verify') ?? 'false';
    if (!/^(true|false)$/.test(verify)) throw badParameter('The parameter verify must be true or false');
    const token = await deps.findToken(givenToken);
    const { accountId } = token;
    const client = await ownClient(db, { clientToken, accountId }, 'invalid_client_token');
    const there = await getRegistration(db, clientToken);
    // A repeat takes over what an equal call without an answer has stored.
    const mayBeOurs = there?.answered === false && there.url === url;
    if (there && !mayBeOurs) throw alreadyRegistered(config.OPERATOR_CONTACT);
    if (needsLookup(url)) await deps.countCall(ctx, 'names', accountId);
    await checkUrl(deps, url, ctx.querystring);
    const about = { url: originOf(url) };
    if (verify === 'true' || config.VERIFY_REGISTRATIONS) {
      await answeredBefore(
        deps.closing,
        verifyReceiver(actorOf(deps, { ctx, token, client }), { client, url }),
      );
    }
    await auditCall(deps, { ctx, token, client }, 'registration', { security: 'change', about });
    const maySetHeaders = await maySeeSecrets(db, token);
    const nonce = await storeUrl(deps, clientToken, url, maySetHeaders);
    ctx.res.once('finish', () => void markAnsweredSoon(deps, clientToken, nonce));
    return { success: true, url };
  },
});

const alreadyRegistered = (contact: string): ApiError =>
  new ApiError('already_registered', `A url is already registered. Please contact ${contact}`);

/** Stores a registration. @returns its nonce @throws ApiError 400, 503 */
async function storeUrl(
  deps: ApiDeps,
  clientToken: string,
  url: string,
  maySetHeaders: boolean,
): Promise<string> {
  const { db, secretBox, config, catchUps } = deps;
  const stored = db.durably((own) => register(own, secretBox, clientToken, url, { maySetHeaders }));
  const result = await stored.answer;
  if (result.outcome === 'taken') throw alreadyRegistered(config.OPERATOR_CONTACT);
  // From here on the caller gets 200, or 503 while a repeat may still take this over, but never later.
  const leftMs = result.storingSinceMs + answerWithinMs - Date.now();
  await withTimeout(stored.safe, leftMs, () => {
    throw unavailable(tooLate);
  });
  if (Date.now() - result.storingSinceMs > answerWithinMs) throw unavailable(tooLate);
  reportStateChange(deps, { clientToken, from: 'not_registered', to: 'active', why: 'registered' });
  void catchUps.alarm(clientToken);
  return result.nonce;
}

const tooLate = 'the registration was not on disk in time';

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
