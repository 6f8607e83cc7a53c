/** Decides who may see a page of the console and send a form: the link, the session that it opens, and the first steps of each page. */
import type { Context, Middleware } from 'koa';
import { fingerprintOf, randomSecret } from '../../redis/records/accounts.js';
import {
  consoleSessionMs,
  endConsoleSession,
  findConsoleLink,
  findConsoleSession,
  openConsoleLink,
} from '../../redis/records/consoleSessions.js';
import { ApiError } from '../apiError.js';
import { findNoticesClient } from '../endpoint.js';
import { readEndpoint } from '../endpoints/clients.js';
import type { ApiDeps, Step, StepContext } from '../step.js';
import { auditCall } from '../steps/auditCall.js';
import { readForm } from '../steps/body.js';
import { ownClient } from '../steps/publisher.js';
import { type Parameters, parseParameters } from '../steps/query.js';
import { type Html, html, type Piece } from './html.js';
import {
  answerPage,
  composePage,
  type FormState,
  formTokenField,
  type SessionState,
  type SiteState,
  sessionFrame,
  siteUrl,
} from './page.js';
import { isSentBy, redirect, sessionCookies } from './sessionCookie.js';
import { publisher } from './words.js';

const cookiesOf = ({ config }: Pick<ApiDeps, 'config'>) => sessionCookies('console_session', config);

/** Composes a page of the account: it takes a session, and counts towards the account's rate of pages. */
export function pageSteps<State extends SessionState>(deps: ApiDeps, ...steps: Step<State>[]): Middleware[] {
  const countPage: Step<SessionState> = async (ctx, next) => {
    const { accountId } = ctx.state.token;
    await deps.countCall(ctx, 'console', accountId);
    await deps.inTurn(ctx, `${accountId} console`, next);
  };
  return composePage<State>(requireSession(deps), countPage, ...steps);
}

/** Answers a request about one endpoint. */
export type ClientPage = (ctx: StepContext<SiteState>, deps: ApiDeps) => Promise<void>;

/** Composes a page about the client of its path and the client's endpoint, which is state.health and state.registration. */
export const clientPage = (deps: ApiDeps, answer: ClientPage): Middleware[] =>
  pageSteps<SiteState>(deps, findClient(deps), async (ctx) => {
    const { clientToken } = ctx.state.client;
    const about = { here: siteUrl(clientToken), reader: publisher };
    Object.assign(ctx.state, about, await readEndpoint(deps.db, clientToken));
    await answer(ctx, deps);
  });

/** Composes the answer to a form about the client of its path. */
export const clientForm = (deps: ApiDeps, answer: Step<FormState>): Middleware[] =>
  composePage(
    requireSession(deps),
    findClient(deps),
    cookiesOf(deps).requireSameOrigin,
    requireOwnForm,
    answer,
  );

/** Finds the session, and its account in the form of an access token. Without a session it redirects to /console/open. */
const requireSession = (deps: ApiDeps): Step<SessionState> => {
  const cookies = cookiesOf(deps);
  return async (ctx, next) => {
    const secret = cookies.secretOf(ctx);
    const session = await findConsoleSession(deps.db, secret);
    if (session === undefined) return askToOpen(ctx, '/console/open');
    const { accountId, scopes, generation, fingerprint } = session;
    ctx.state.session = session;
    ctx.state.formToken = cookies.formTokenOf(secret);
    ctx.state.frame = sessionFrame(session, ctx.state.formToken);
    ctx.state.token = { accountId, scopes, generation, fingerprint: `console:${fingerprint}` };
    await next();
  };
};

/** Leads a browser without a session to the page that says how to get one. */
export function askToOpen(ctx: StepContext<unknown>, path: string): void {
  // htmx would put the target of a redirect into a part of this page.
  if (ctx.get('HX-Request') === 'true') {
    ctx.status = 401;
    ctx.set('HX-Redirect', path);
    ctx.body = 'signed out';
  } else {
    redirect(ctx, path);
  }
}

/**
 * Finds the client of the path's `site`, or else the client that gets the account's notices, as state.client.
 * @throws ApiError 404, the same for a client that does not exist and for another account's
 */
const findClient =
  ({ db }: ApiDeps): Step<SessionState> =>
  async ({ params, state }, next) => {
    const { site: clientToken } = params;
    const { accountId } = state.session;
    state.client = clientToken
      ? await ownClient(db, { clientToken, accountId })
      : await findNoticesClient(db, state.token);
    await next();
  };

/** Reads the form, as state.form: a page of this session must have sent it, and the session may act. @throws ApiError 403 */
const requireOwnForm: Step<FormState> = async (ctx, next) => {
  const { formToken, session } = ctx.state;
  ctx.state.form = await readOwnForm(ctx, formToken);
  if (session.access !== 'full') {
    throw new ApiError('insufficient_scope', 'This session may look, but not change or send anything');
  }
  await next();
};

/** Returns a parameter of the query; undefined if it is absent or left empty in a form. @throws ApiError 400 */
export function given(ctx: { querystring: string }, name: string): string | undefined {
  return parseParameters(ctx.querystring).get(name)?.trim() || undefined;
}

/** GET /console/open: the script sends the token after `#`; without a token the page says how to get a link. */
export const openPage: Middleware[] = composePage((ctx) => {
  const how = html`<p>A link opens this console; it works once, for 15 minutes, and a session lasts 8 hours at most.</p>
<ol>
<li>In your company’s own pages for these notifications, follow the link to the console: each time it makes a new one.</li>
<li>Where there is no such page, ask your account manager for a link, or have your backend call <code>POST /console_sessions</code> with an access token and open the <code>url</code> that it answers.</li>
</ol>`;
  answerPage(ctx, { title: 'Open the console', body: linkForm('/console/open', how) });
});

/** Builds the form that takes a link, for whoever is not signed in. @param how to get a link */
export const linkForm = (action: string, how: Piece): Html => html`
<p>You are not signed in, or your session has ended. A form that was sent since has changed nothing.</p>
<form method="post" action="${action}" class="stack" data-open>
${how}
<label for="link">Link</label>
<input id="link" name="link" autocomplete="off" spellcheck="false" required>
<button>Open</button>
</form>`;

export const linkUsed = () =>
  new ApiError('invalid_token', 'This link has been used, or is older than 15 minutes. Please get a new one');

/** Reads the token of a link, which stands after `#`. */
export async function readLink(ctx: Pick<Context, 'req'>): Promise<{ form: Parameters; token: string }> {
  const form = await readForm(ctx.req);
  const given = form.get('link') ?? '';
  return { form, token: given.slice(given.lastIndexOf('#') + 1) };
}

/** Reads a form that a page of the session sent. @throws ApiError 403 */
export async function readOwnForm(ctx: Pick<Context, 'req'>, formToken: string): Promise<Parameters> {
  const form = await readForm(ctx.req);
  if (isSentBy(form, formToken)) return form;
  throw new ApiError('insufficient_scope', 'This form was not sent by a page of your session');
}

/**
 * POST /console/open: uses up the link and begins a session, which ends the browser's former one. While a session of
 * another account is open, it asks first: otherwise the sender of the link could have its reader act in the sender's
 * account.
 */
export function openEndpoint(deps: ApiDeps): Middleware[] {
  const { db } = deps;
  const cookies = cookiesOf(deps);
  return composePage(cookies.requireSameOrigin, async (ctx) => {
    const { form, token } = await readLink(ctx);
    const link = await findConsoleLink(db, token);
    if (link === undefined) throw linkUsed();
    const before = cookies.secretOf(ctx);
    const session = await findConsoleSession(db, before);
    const isOther = session !== undefined && session.accountId !== link.accountId;
    if (isOther && !isSentBy(form, cookies.formTokenOf(before))) {
      const fields = [
        html`<input type="hidden" name="link" value="${token}">`,
        formTokenField(cookies.formTokenOf(before)),
      ];
      const body = askToSwitch(session.accountName, link.accountName, fields);
      return answerPage(ctx, { title: 'Open another account', body });
    }
    const secret = randomSecret();
    const fingerprint = `console:${fingerprintOf(secret)}`;
    const caller = { ctx, token: { accountId: link.accountId, fingerprint } };
    await auditCall(deps, caller, 'console opened', { security: 'look', about: { access: link.access } });
    if (!(await openConsoleLink(db, token, secret))) throw linkUsed();
    await endConsoleSession(db, before);
    cookies.begin(ctx, secret, consoleSessionMs);
    redirect(ctx, '/console');
  });
}

const askToSwitch = (from: string, to: string, fields: Piece): Piece => html`
<p>You are signed in to <strong>${from}</strong>. This link opens <strong>${to}</strong>.</p>
<form method="post" action="/console/open" class="stack">
${fields}<button>Leave ${from} and open ${to}</button>
</form>
<p><a href="/console">Stay in ${from}</a></p>`;

/** POST /console/sign_out: ends the session immediately, for every copy of its cookie. */
export function signOutEndpoint(deps: ApiDeps): Middleware[] {
  const cookies = cookiesOf(deps);
  return composePage(cookies.requireSameOrigin, async (ctx) => {
    await endConsoleSession(deps.db, cookies.secretOf(ctx));
    cookies.end(ctx);
    redirect(ctx, '/console/open');
  });
}
