import { z } from 'zod';
import { removeNoticesUrl, setNoticesUrl, showRegistration } from '../../acts/registrations.js';
import { registeredUrl, urlText } from '../../http/schemas.js';
import { needsLookup } from '../../outgoing/target.js';
import { noticesCall } from '../call.js';
import { urlCodes } from '../steps/checkUrl.js';
import { reading, rotating } from './clientSettings.js';

export const setNoticesUrlCall = noticesCall({
  route: 'PUT /notices',
  summary: 'Set the URL for notices',
  description:
    'Sets the URL to which the service sends a notice when an endpoint of one of the account’s clients (for the platform: of any client) fails, is suspended or recovers, when notifications failed, when a signing secret is rotated, and when an operator changes, removes or puts back a URL. A new URL replaces the previous one immediately; the signing secret stays. A URL without a name to look up does not count there. The previous URL is told once. One call in 5 s, bursts of 8.',
  after503: 'repeat it: a repeat sets the same URL.',
  body: {
    schema: z.strictObject({ url: z.string().min(1) }),
    examples: { 'Your receiver': { url: 'https://ops.example.com/hooks/notices' } },
  },
  result: { what: 'The URL is set.', schema: registeredUrl },
  codes: urlCodes,
  rate: 'names',
  countsIf: ({ url }) => needsLookup(url),
  act: setNoticesUrl,
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

export const getNoticesUrlCall = noticesCall({
  route: 'GET /notices',
  summary: 'Show the URL for notices',
  description: 'Shows the URL, and the state of its endpoint.',
  result: { what: 'The URL.', schema: registeredUrl },
  act: showRegistration,
});

export const removeNoticesUrlCall = noticesCall({
  route: 'DELETE /notices',
  summary: 'Remove the URL for notices',
  description:
    'Removes the URL and its signing secrets. Notices that were not delivered yet are cancelled. The URL is told once. One call in 5 s, bursts of 8.',
  after503: 'repeat it: 404 then means that the URL is removed.',
  result: { what: 'The URL is removed.', schema: z.object({ removed_url: urlText }) },
  act: removeNoticesUrl,
});
