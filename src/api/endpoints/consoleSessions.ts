import { z } from 'zod';
import {
  type ConsoleAccess,
  consoleAccesses,
  createConsoleLink,
} from '../../redis/records/consoleSessions.js';
import { publicOrigin } from '../console/access.js';
import { accountEndpoint } from '../endpoint.js';
import { text, time } from '../reference/schemas.js';
import type { Step } from '../step.js';
import { auditCall } from '../steps/auditCall.js';
import { limitAccount } from '../steps/limits.js';
import type { TokenState } from '../steps/publisher.js';
import { readQuery } from '../steps/query.js';
import { presentTime } from './present.js';

interface LinkState extends TokenState {
  access: ConsoleAccess;
}

const query = z.object({
  access: z
    .enum(consoleAccesses)
    .default('full')
    .meta({ description: 'What the session may do.', default: 'full' }),
});

/** Makes a link that opens the account's console once, within 15 minutes. */
export const createLinkEndpoint = accountEndpoint<LinkState>({
  method: 'post',
  path: '/console_sessions',
  operationId: 'createConsoleSession',
  tag: 'Endpoint',
  summary: 'Make a link to the console',
  description: 'Makes a link that opens the account’s console in a browser, once, within 15 minutes.',
  after503: 'ask again: a link that was made and not answered is known to nobody and ends after 15 minutes.',
  query,
  answers: {
    200: {
      what: 'The link.',
      schema: z.object({
        url: text('https://notifications.example.com/console/open#dG9rZW4'),
        expires_at: time(),
      }),
    },
  },
  codes: [],
  rate: 'console',
  steps: (deps) => [
    limitAccount(deps, 'console') as Step<LinkState>,
    async (ctx, next) => {
      ctx.state.access = readQuery(ctx, query).access;
      await next();
    },
    auditCall<LinkState>(deps, {
      what: 'console link',
      isSecurity: true,
      about: ({ access }) => ({ access }),
    }),
    async (ctx) => {
      const { token, access } = ctx.state;
      const origin = publicOrigin(ctx.req, deps.config);
      const { url, expiresAtMs } = await createConsoleLink(deps.db, origin, { ...token, access });
      ctx.body = { url, expires_at: presentTime(expiresAtMs) };
    },
  ],
});
