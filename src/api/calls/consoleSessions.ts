import { z } from 'zod';
import { makeConsoleLink } from '../../acts/console.js';
import { text, time } from '../../http/schemas.js';
import { ignore } from '../../redis/connection/unavailable.js';
import { consoleAccesses } from '../../redis/records/sessions.js';
import { publicOrigin } from '../../web/door.js';
import { actorOf } from '../actor.js';
import { accountCall } from '../call.js';

export const createConsoleSessionCall = accountCall({
  route: 'POST /console_sessions',
  summary: 'Make a link to the console',
  description: 'Makes a link that opens the account’s console in a browser, once, within 15 minutes.',
  after503: 'ask again: a link that was made and not answered is known to nobody and ends after 15 minutes.',
  query: z.object({
    access: z
      .enum(consoleAccesses)
      .default('full')
      .meta({ description: 'What the session may do.', default: 'full' }),
  }),
  result: {
    what: 'The link.',
    schema: z.object({
      url: text('https://notifications.example.com/console/open#dG9rZW4'),
      expires_at: time(),
    }),
  },
  rate: 'links',
  act: makeConsoleLink,
  answer: async (deps, request) => {
    const { ctx, token, query } = request;
    // After the token's own rate: one token cannot use up the links of all.
    await deps.countCall({ set: ignore }, 'accountLinks', token.accountId);
    const origin = publicOrigin(ctx.req, deps.config);
    return makeConsoleLink(actorOf(deps, request), { ...token, ...query, origin });
  },
});
