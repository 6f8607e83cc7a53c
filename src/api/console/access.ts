/** Decides who may see a page and send a form: the link, the session that it opens and its cookie, and the first steps of each page. */
import { hash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Context, Middleware } from 'koa';
import type { Config } from '../../config.js';
import { fingerprintOf, randomSecret } from '../../redis/records/accounts.js';
import {
  consoleSessionMs,
  endConsoleSession,
  findConsoleLink,
  findConsoleSession,
  openConsoleLink,
} from '../../redis/records/consoleSessions.js';
import { ApiError, badParameter } from '../apiError.js';
import { isFromTrustedProxy } from '../clientAddress.js';
import { findNoticesClient } from '../endpoint.js';
import { readEndpoint } from '../endpoints/clients.js';
import type { ApiDeps, Step, StepContext } from '../step.js';
import { auditCall } from '../steps/auditCall.js';
import { readForm } from '../steps/body.js';
import { ownClient } from '../steps/publisher.js';
import { type Parameters, parseParameters } from '../steps/query.js';
import { html, type Piece } from './html.js';
import {
  answerPage,
  composePage,
  type FormState,
  formTokenField,
  type SessionState,
  type SiteState,
} from './page.js';

/** Composes a page of the account: it takes a session, and counts towards the account's rate of pages. */
export function pageSteps<State extends SessionState>(deps: ApiDeps, ...steps: Step<State>[]): Middleware[] {
  const countPage: Step<SessionState> = async (ctx, next) => {
    await deps.countCall(ctx, 'console', ctx.state.token.accountId);
    await next();
  };
  return composePage<State>(requireSession(deps), countPage, ...steps);
}

/** Composes a page about the client of its path and the client's endpoint, which is state.health and state.registration. */
export const clientPage = (deps: ApiDeps, answer: Step<SiteState>): Middleware[] =>
  pageSteps<SiteState>(deps, findClient(deps), async (ctx, next) => {
    Object.assign(ctx.state, await readEndpoint(deps.db, ctx.state.client.clientToken));
    await answer(ctx, next);
  });

/** Composes the answer to a form about the client of its path. */
export const clientForm = (deps: ApiDeps, answer: Step<FormState>): Middleware[] =>
  composePage(requireSession(deps), findClient(deps), requireSameOrigin(deps), requireOwnForm, answer);

/** Finds the session, and its account in the form of an access token. Without a session it redirects to /console/open. */
const requireSession =
  (deps: ApiDeps): Step<SessionState> =>
  async (ctx, next) => {
    const secret = sessionSecret(ctx, deps);
    const session = await findConsoleSession(deps.db, secret);
    if (session === undefined) {
      // htmx would put the target of a redirect into a part of this page.
      if (ctx.get('HX-Request') === 'true') {
        ctx.status = 401;
        ctx.set('HX-Redirect', '/console/open');
        ctx.body = 'signed out';
      } else {
        redirect(ctx, '/console/open');
      }
      return;
    }
    const { accountId, scopes, generation, fingerprint } = session;
    ctx.state.session = session;
    ctx.state.formToken = deriveFormToken(secret);
    ctx.state.token = { accountId, scopes, generation, fingerprint: `console:${fingerprint}` };
    await next();
  };

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
      : await findNoticesClient(db, accountId);
    await next();
  };

/** Reads the form, as state.form: a page of this session must have sent it, and the session may act. @throws ApiError 403 */
const requireOwnForm: Step<FormState> = async (ctx, next) => {
  const { formToken, session } = ctx.state;
  const form = await readForm(ctx.req);
  ctx.state.form = form;
  if (!isSentBy(form, formToken)) {
    throw new ApiError('insufficient_scope', 'This form was not sent by a page of your session');
  }
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
export const openPage: Middleware[] = composePage((ctx) => askForLink(ctx));

function askForLink(ctx: StepContext<unknown>, notice?: string): void {
  const body = html`
${notice && html`<div class="notice bad" role="alert"><p>${notice}</p></div>`}
<form method="post" action="/console/open" class="stack" data-open>
<p>You are not signed in. A link opens this console; it works once, for 15 minutes, and a session lasts 8 hours at most.</p>
<ol>
<li>In your company’s own pages for these notifications, follow the link to the console: each time it makes a new one.</li>
<li>Where there is no such page, ask your account manager for a link, or have your backend call <code>POST /console_sessions</code> with an access token and open the <code>url</code> that it answers.</li>
</ol>
<label for="link">Link</label>
<input id="link" name="link" autocomplete="off" spellcheck="false" required>
<button>Open</button>
</form>`;
  answerPage(ctx, { title: 'Open the console', body });
}

/**
 * POST /console/open: uses up the link and begins a session, which ends the browser's former one. While a session of
 * another account is open, it asks first: otherwise the sender of the link could have its reader act in the sender's
 * account.
 */
export function openEndpoint(deps: ApiDeps): Middleware[] {
  const { db, config } = deps;
  return composePage(requireSameOrigin(deps), async (ctx) => {
    const form = await readForm(ctx.req);
    const given = form.get('link') ?? '';
    const token = given.slice(given.lastIndexOf('#') + 1);
    const link = await findConsoleLink(db, token);
    if (link === undefined) return answerUsed(ctx);
    const before = sessionSecret(ctx, deps);
    const session = await findConsoleSession(db, before);
    const isOther = session !== undefined && session.accountId !== link.accountId;
    if (isOther && !isSentBy(form, deriveFormToken(before))) {
      const fields = [
        html`<input type="hidden" name="link" value="${token}">`,
        formTokenField(deriveFormToken(before)),
      ];
      const body = askToSwitch(session.accountName, link.accountName, fields);
      return answerPage(ctx, { title: 'Open another account', body });
    }
    const secret = randomSecret();
    const fingerprint = `console:${fingerprintOf(secret)}`;
    const caller = { ctx, token: { accountId: link.accountId, fingerprint } };
    await auditCall(deps, caller, 'console opened', { isSecurity: true, about: { access: link.access } });
    if (!(await openConsoleLink(db, token, secret))) return answerUsed(ctx);
    await endConsoleSession(db, before);
    // The browser's Origin names https if no proxy does.
    const isSecure =
      publicOrigin(ctx.req, config).startsWith('https:') || ctx.get('origin').startsWith('https:');
    ctx.set('Set-Cookie', sessionCookie(secret, isSecure, consoleSessionMs / 1000));
    redirect(ctx, '/console');
  });
}

function answerUsed(ctx: StepContext<unknown>): void {
  ctx.status = 401;
  askForLink(ctx, 'This link has been used, or is older than 15 minutes. Please get a new one.');
}

const askToSwitch = (from: string, to: string, fields: Piece): Piece => html`
<p>You are signed in to <strong>${from}</strong>. This link opens <strong>${to}</strong>.</p>
<form method="post" action="/console/open" class="stack">
${fields}<button>Leave ${from} and open ${to}</button>
</form>
<p><a href="/console">Stay in ${from}</a></p>`;

/** POST /console/sign_out: ends the session immediately, for every copy of its cookie. */
export function signOutEndpoint(deps: ApiDeps): Middleware[] {
  return composePage(requireSameOrigin(deps), async (ctx) => {
    await endConsoleSession(deps.db, sessionSecret(ctx, deps));
    // The browser may have either cookie.
    ctx.set('Set-Cookie', [sessionCookie('', false, 0), sessionCookie('', true, 0)]);
    redirect(ctx, '/console/open');
  });
}

export function redirect(ctx: Pick<Context, 'status' | 'set'>, to: string): void {
  ctx.status = 303;
  ctx.set('Location', to);
}

/**
 * Returns the secret of the browser's session; empty if it sent none. If the browser uses https, a cookie that an
 * http page may have set is ignored.
 */
export function sessionSecret(
  { req, cookies }: Pick<Context, 'req' | 'cookies'>,
  { config }: ApiDeps,
): string {
  const isSecure = publicOrigin(req, config).startsWith('https:');
  return cookies.get(securedName) ?? (isSecure ? undefined : cookies.get(plainName)) ?? '';
}

/** Derives the token of the forms from the secret, which no page ever shows. */
const deriveFormToken = (secret: string): string => hash('sha256', `console form ${secret}`, 'base64url');

function isSentBy(form: Parameters, formToken: string): boolean {
  const [given, wanted] = [Buffer.from(form.get('form_token') ?? ''), Buffer.from(formToken)];
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

const plainName = 'console_session';
/** The name over https: no other host and no http page can set a cookie of this name. */
const securedName = `__Host-${plainName}`;

/** Lax: a link to a page of the console works in a chat, and a form of another site sends no cookie. */
function sessionCookie(secret: string, isSecure: boolean, seconds: number): string {
  const name = isSecure ? `${securedName}=${secret}; Secure` : `${plainName}=${secret}`;
  return `${name}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${seconds}`;
}

/**
 * Returns the origin under which browsers reach this service, such as `https://hooks.example.com`: PUBLIC_URL, else the
 * request's own Host, with the scheme that a trusted proxy names in X-Forwarded-Proto.
 * @throws ApiError 400 for an invalid Host
 */
export function publicOrigin(req: IncomingMessage, settings: Config): string {
  if (settings.PUBLIC_URL !== undefined) return new URL(settings.PUBLIC_URL).origin;
  const { host = '' } = req.headers;
  if (!/^[A-Za-z0-9.:[\]-]{1,255}$/.test(host)) throw badParameter('The header Host is not a host');
  const isSecure =
    isFromTrustedProxy(req, settings.TRUSTED_PROXIES) && req.headers['x-forwarded-proto'] === 'https';
  return `${isSecure ? 'https' : 'http'}://${host}`;
}

/**
 * Requires a form that a page of this service sent. Without PUBLIC_URL only the host is compared: behind a proxy that is not
 * listed as trusted, the browser's scheme is unknown.
 * @throws ApiError 403
 */
const requireSameOrigin =
  ({ config }: ApiDeps): Step =>
  (ctx, next) => {
    const { origin = '', host, 'sec-fetch-site': site = 'same-origin' } = ctx.req.headers;
    const own = config.PUBLIC_URL
      ? [new URL(config.PUBLIC_URL).origin]
      : [`http://${host}`, `https://${host}`];
    if (site === 'same-origin' && own.includes(origin)) return next();
    throw new ApiError('insufficient_scope', 'This form was sent by a page of another site');
  };
