import { z } from 'zod';
import { requestUrl, showUrlRequest } from '../../acts/urlRequests.js';
import { oneOfMany, reasonText, time, urlText } from '../../http/schemas.js';
import { needsLookup } from '../../outgoing/target.js';
import { urlRequestStates } from '../../redis/records/urlRequests.js';
import { clientCall } from '../call.js';
import { urlCodes } from '../steps/checkUrl.js';

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
  isCounted: ({ body }) => needsLookup(body.url),
  act: requestUrl,
  input: ({ client, body }) => ({ client, ...body }),
});

export const getUrlRequestCall = clientCall({
  route: 'GET /push_notifications/url_request',
  summary: 'Show the request for another URL',
  description: 'Shows the last request, and what became of it, for 14 days after it was answered.',
  result: { what: 'The request.', schema: shown },
  codes: ['no_url_request'],
  act: showUrlRequest,
  input: ({ client }) => ({ client }),
});
