/** Decides who may see a page of the console and send a form: the door of the console, and what its pages are about. */
import type { Middleware } from 'koa';
import { fingerprintOf } from '../../redis/records/accounts.js';
import { consoleSessions } from '../../redis/records/sessions.js';
import { ApiError } from '../apiError.js';
import { findNoticesClient } from '../endpoint.js';
import { readEndpoint } from '../endpoints/clients.js';
import type { ApiDeps, Step, StepContext } from '../step.js';
import { auditCall } from '../steps/auditCall.js';
import { ownClient } from '../steps/publisher.js';
import { parseParameters } from '../steps/query.js';
import { createDoor, redirect } from './door.js';
import { html } from './html.js';
import type { Frame } from './page.js';
import { type FormState, home, type SessionState, type SiteState, siteUrl } from './site.js';
import { publisher } from './words.js';

const frame: Frame = { product: 'Notifications console', back: { name: 'Sites', href: '/console' } };

export const consoleDoor = (deps: ApiDeps) =>
  createDoor({
    db: deps.db,
    path: '/console',
    frame,
    reached: deps.config,
    sessions: consoleSessions,
    around: ({ accountName, access }) => ({
      links: [frame.back, { name: 'Notices', href: '/console/notices' }],
      who: html`${accountName}${access === 'read' && html` <span class="badge">read only</span>`}`,
    }),
    how: html`<p>A link opens this console; it works once, for 15 minutes, and a session lasts 8 hours at most.</p>
<ol>
<li>In your company’s own pages for these notifications, follow the link to the console: each time it makes a new one.</li>
<li>Where there is no such page, ask your account manager for a link, or have your backend call <code>POST /console_sessions</code> with an access token and open the <code>url</code> that it answers.</li>
</ol>`,
    async record(ctx, { accountId, access }, secret) {
      const caller = { ctx, token: { accountId, fingerprint: `console:${fingerprintOf(secret)}` } };
      await auditCall(deps, caller, 'console opened', { security: 'look', about: { access } });
    },
    apart: (now, next) =>
      now.accountId === next.accountId ? undefined : [now.accountName, next.accountName],
    signedOut: (ctx) => redirect(ctx, '/console/open'),
  });

/** Composes a page of the account: it takes a session, and counts towards the account's rate of pages. */
export function pageSteps<State extends SessionState>(deps: ApiDeps, ...steps: Step<State>[]): Middleware[] {
  const countPage: Step<State> = async (ctx, next) => {
    const { accountId } = ctx.state.session;
    await deps.countCall(ctx, 'console', accountId);
    await deps.inTurn(ctx, `${accountId} console`, next);
  };
  return consoleDoor(deps).page<State>(countPage, ...steps);
}

/** Answers a request about one endpoint. */
export type ClientPage = (ctx: StepContext<SiteState>, deps: ApiDeps) => Promise<void>;

/** Composes a page about the client of its path and the client's endpoint, which is state.health and state.registration. */
export const clientPage = (deps: ApiDeps, answer: ClientPage): Middleware[] =>
  pageSteps<SessionState & SiteState>(deps, findClient(deps), async (ctx) => {
    Object.assign(ctx.state, await readEndpoint(deps.db, ctx.state.client.clientToken));
    await answer(ctx, deps);
  });

/** Composes the answer to a form about the client of its path. */
export const clientForm = (deps: ApiDeps, answer: Step<FormState>): Middleware[] =>
  consoleDoor(deps).form<FormState>(findClient(deps), requireFullAccess, answer);

/**
 * Finds the client of the path's `site`, or else the client that gets the account's notices, as state.client, and the account in the
 * form of an access token.
 * @throws ApiError 404, the same for a client that does not exist and for another account's
 */
const findClient =
  ({ db }: ApiDeps): Step<SessionState & Pick<SiteState, 'client' | 'here' | 'reader'>> =>
  async ({ params, state }, next) => {
    const { site: clientToken } = params;
    const { accountId, scopes, generation, fingerprint } = state.session;
    state.token = { accountId, scopes, generation, fingerprint: `console:${fingerprint}` };
    state.client = clientToken
      ? await ownClient(db, { clientToken, accountId })
      : { ...(await findNoticesClient(db, state.token)), name: 'Notices' };
    state.here = clientToken ? siteUrl(clientToken) : '/console/notices';
    state.reader = publisher;
    state.frame.back = home(state);
    await next();
  };

const requireFullAccess: Step<FormState> = async (ctx, next) => {
  if (ctx.state.session.access !== 'full')
    throw new ApiError('insufficient_scope', 'This session may look, but not change or send anything');
  await next();
};

/** Returns a parameter of the query; undefined if it is absent or left empty in a form. @throws ApiError 400 */
export function given(ctx: { querystring: string }, name: string): string | undefined {
  return parseParameters(ctx.querystring).get(name)?.trim() || undefined;
}
