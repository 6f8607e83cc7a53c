/** The one URL of an account for notices: the registration of the client that gets them (contract, section 5b). */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { showRegistration } from '../../acts/registrations.js';
import { requireRegistration, type Subject } from '../../acts/subjects.js';
import { registeredUrl, urlText } from '../../http/schemas.js';
import { idFromBytes } from '../../ids.js';
import { changedBody } from '../../notices/notices.js';
import { notificationRequest } from '../../outgoing/notification.js';
import { needsLookup, originOf } from '../../outgoing/target.js';
import { removeNoticesUrl } from '../../redis/records/deletion.js';
import { setNoticesUrl } from '../../redis/records/notices.js';
import { getRegistration } from '../../redis/records/registrations.js';
import { readSecrets } from '../../redis/records/secrets.js';
import { actorOf } from '../actor.js';
import { noticesCall } from '../call.js';
import type { ApiDeps } from '../deps.js';
import { admitSend } from '../steps/auditCall.js';
import { checkUrl, urlCodes } from '../steps/checkUrl.js';
import { reading, rotating } from './signingSecret.js';

export const setNoticesUrlCall = noticesCall({
  route: 'PUT /notices',
  summary: 'Set the URL for notices',
  description:
    'Sets the URL to which the service sends a notice when an endpoint of one of the account’s clients (for the platform: of any client) fails, is suspended or recovers, when notifications failed, and when a signing secret is rotated. A new URL replaces the previous one immediately; the signing secret stays. A URL without a name to look up does not count there. The previous URL is told once. One call in 5 s, bursts of 6.',
  by: 'signingSecrets',
  after503: 'repeat it: a repeat sets the same URL.',
  body: {
    schema: z.strictObject({ url: z.string().min(1) }),
    examples: { 'Your receiver': { url: 'https://ops.example.com/hooks/notices' } },
  },
  result: { what: 'The URL is set.', schema: registeredUrl },
  codes: urlCodes,
  rate: 'names',
  isCounted: ({ body }) => needsLookup(body.url),
  answer: async (deps, request) => {
    const { db, secretBox, catchUps } = deps;
    const { clientToken, accountId } = request.client;
    const { url } = request.body;
    await checkUrl(deps, url);
    await admitSend(deps, request, 'notices url set', { security: 'change', about: { url: originOf(url) } });
    const before = await getRegistration(db, clientToken);
    if (before && before.url !== url) await sendFarewell(deps, request.client, before.url, 'replaced');
    await db.durably((own) => setNoticesUrl(own, secretBox, accountId, url)).safe;
    void catchUps.alarm(clientToken);
    return showRegistration(actorOf(deps, request), { client: request.client });
  },
});

export const getNoticesSecretCall = noticesCall({
  ...reading,
  route: 'GET /notices/signing_secret',
  summary: 'Show the signing secret of the notices',
  description: 'Shows the secret that verifies the account’s notices. The first PUT /notices makes it.',
});

export const rotateNoticesSecretCall = noticesCall({
  ...rotating,
  route: 'POST /notices/signing_secret',
  summary: 'Make a new signing secret of the notices',
});

/**
 * Sends a message to a URL that will get no more notices, once, without retries: a notice would go to the new URL. Somebody with a
 * stolen token must not silence the notices unnoticed, so call it before the change, which may happen although the call ends in 503.
 * Waits only until the message is signed: its secrets may be gone afterwards.
 */
async function sendFarewell(
  { db, secretBox, sender, log }: ApiDeps,
  { clientToken, accountId }: Subject,
  url: string,
  change: 'replaced' | 'removed',
): Promise<void> {
  const { signing } = await readSecrets(db, secretBox, clientToken);
  const at = Date.now();
  const notificationId = idFromBytes(randomBytes(16));
  const body = changedBody(accountId, at + db.clockOffsetMs(), change);
  const request = notificationRequest({ notificationId, clientToken, platformId: '', body }, signing, at);
  const about = { client_token: clientToken, change };
  const notTold = 'the previous URL for notices was not told';
  void sender.post({ url, client: clientToken, ...request }).then(
    ({ ok, status, error, detail, ours, why }) => {
      if (ok) log.info({ ...about, status }, 'the previous URL for notices was told');
      else log.warn({ ...about, status, error, detail, ours, why }, notTold);
    },
    (err: unknown) => log.error({ ...about, err }, notTold),
  );
}

export const getNoticesUrlCall = noticesCall({
  route: 'GET /notices',
  summary: 'Show the URL for notices',
  description: 'Shows the URL, and the state of its endpoint.',
  result: { what: 'The URL.', schema: registeredUrl },
  act: showRegistration,
  input: ({ client }) => ({ client }),
});

export const removeNoticesUrlCall = noticesCall({
  route: 'DELETE /notices',
  summary: 'Remove the URL for notices',
  description:
    'Removes the URL and its signing secrets. Notices that were not delivered yet are cancelled. The URL is told once. One call in 5 s, bursts of 6.',
  by: 'signingSecrets',
  after503: 'repeat it: 404 then means that the URL is removed.',
  result: { what: 'The URL is removed.', schema: z.object({ removed_url: urlText }) },
  answer: async (deps, request) => {
    const { clientToken, url } = await requireRegistration(deps.db, request.client);
    await admitSend(deps, request, 'notices url removed', {
      security: 'change',
      about: { url: originOf(url) },
    });
    await sendFarewell(deps, request.client, url, 'removed');
    const removing = deps.db.durably((own) => removeNoticesUrl(own, clientToken));
    deps.metrics.ended('cancelled', await removing.safe);
    return { removed_url: url };
  },
});
