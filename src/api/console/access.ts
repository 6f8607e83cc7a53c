/** Who may see a page and send a form: the origin, the session and its cookie, and the first steps of each page. */
import { hash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Context, Middleware } from 'koa';
import type { Config } from '../../config.js';
import {
  consoleSessionMs,
  endConsoleSession,
  findConsoleSession,
} from '../../redis/records/consoleSessions.js';
import { ApiError, badParameter } from '../apiError.js';
import { isFromTrustedProxy } from '../clientAddress.js';
import type { ApiDeps, ApiState, Step } from '../step.js';
import { readForm } from '../steps/form.js';
import { limitAccount } from '../steps/limits.js';
import { ownClientOr } from '../steps/publisher.js';
import { parametersOf } from '../steps/query.js';
import { composePage, type FormState, type SessionState } from './page.js';

/** A page of the account: the session, the account's rate of pages. */
export function pageSteps<State extends SessionState>(deps: ApiDeps, ...steps: Step<State>[]): Middleware[] {
  return composePage<State>(requireSession(deps), limitAccount(deps, 'console'), ...steps);
}

/** A form of a page. @param find sets state.client, the site or the client of notices that the form is about */
export function formSteps<State extends FormState>(
  deps: ApiDeps,
  find: Step<SessionState>,
  ...steps: Step<State>[]
): Middleware[] {
  return composePage<State>(requireSession(deps), find, readForm, requireOwnForm(deps), ...steps);
}

/** Finds the session, and its account in the form of an access token. Without a session it redirects to /console/open. */
const requireSession =
  (deps: ApiDeps): Step<SessionState> =>
  async (ctx, next) => {
    const secret = secretOf(ctx, deps);
    const session = secret === undefined ? undefined : await findConsoleSession(deps.db, secret);
    if (secret === undefined || session === undefined) {
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
    ctx.state.formToken = formTokenOf(secret);
    ctx.state.token = { accountId, scopes, generation, fingerprint: `console:${fingerprint}` };
    await next();
  };

/** Finds the client of the path's `site`, as state.client; 404 if there is none, and the same for another account's. */
export const requireSite =
  ({ db }: ApiDeps): Step<SessionState> =>
  async (ctx, next) => {
    const { site: clientToken = '' } = ctx.params;
    const { accountId } = ctx.state.session;
    ctx.state.client = await ownClientOr('unknown_client', db, { clientToken, accountId });
    await next();
  };

/** Requires a form that a page of this session sent, and a session that may act. @throws ApiError 403 */
const requireOwnForm =
  ({ config }: ApiDeps): Step<FormState> =>
  async (ctx, next) => {
    const { form, formToken, session } = ctx.state;
    if (!isSameOrigin(ctx.req, config) || !isEqual(form.get('form_token') ?? '', formToken)) {
      throw new ApiError('insufficient_scope', 'This form was not sent by a page of your session');
    }
    if (session.access !== 'full') {
      throw new ApiError('insufficient_scope', 'This session may look, but not change or send anything');
    }
    await next();
  };

/** Returns a parameter of the query; undefined if it is absent or left empty in a form. @throws ApiError 400 */
export function given(ctx: { querystring: string; state: ApiState }, name: string): string | undefined {
  return parametersOf(ctx).get(name)?.value.trim() || undefined;
}

/** POST /console/sign_out: ends the session immediately, for every copy of its cookie. */
export function signOutEndpoint(deps: ApiDeps): Middleware[] {
  return composePage(async (ctx) => {
    requireSameOrigin(ctx.req, deps.config);
    const secret = secretOf(ctx, deps);
    if (secret !== undefined) await endConsoleSession(deps.db, secret);
    ctx.set('Set-Cookie', endedCookies);
    redirect(ctx, '/console/open');
  });
}

export function redirect(ctx: Pick<Context, 'status' | 'set'>, to: string): void {
  ctx.status = 303;
  ctx.set('Location', to);
}

/**
 * Returns the secret of the browser's session; undefined if it sent none. If the browser uses https, a cookie that an
 * http page may have set is ignored.
 */
export function secretOf({ req, cookies }: Pick<Context, 'req' | 'cookies'>, { config }: ApiDeps) {
  const isSecure = publicOrigin(req, config).startsWith('https:');
  return cookies.get(securedName) ?? (isSecure ? undefined : cookies.get(plainName));
}

/** Derives the token of the forms from the secret, which no page ever shows. */
export const formTokenOf = (secret: string): string => hash('sha256', `console form ${secret}`, 'base64url');

export function isEqual(given: string, wanted: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(wanted)];
  return one.length === other.length && timingSafeEqual(one, other);
}

const plainName = 'console_session';
/** Over https: no other host and no http page can set a cookie of this name. */
const securedName = `__Host-${plainName}`;

/** Lax: a link to a page of the console works in a chat, and a form of another site sends no cookie. */
export function sessionCookie(secret: string, isSecure: boolean): string {
  const name = isSecure ? `${securedName}=${secret}; Secure` : `${plainName}=${secret}`;
  return `${name}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${consoleSessionMs / 1000}`;
}

/** Deletes both cookies, because the browser may have either. */
const endedCookies = [
  `${plainName}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0`,
  `${securedName}=; Secure; Path=/; HttpOnly; SameSite=Lax; Max-Age=0`,
];

type Settings = Pick<Config, 'PUBLIC_URL' | 'TRUSTED_PROXIES'>;

/**
 * Returns the origin under which browsers reach this service, such as `https://hooks.example.com`: PUBLIC_URL, else the
 * request's own Host, with the scheme that a trusted proxy names in X-Forwarded-Proto.
 * @throws ApiError 400 for an invalid Host
 */
export function publicOrigin(req: IncomingMessage, settings: Settings): string {
  if (settings.PUBLIC_URL !== undefined) return new URL(settings.PUBLIC_URL).origin;
  const { host = '' } = req.headers;
  if (!/^[A-Za-z0-9.:[\]-]{1,255}$/.test(host)) throw badParameter('The header Host is not a host');
  const isSecure =
    isFromTrustedProxy(req, settings.TRUSTED_PROXIES) && req.headers['x-forwarded-proto'] === 'https';
  return `${isSecure ? 'https' : 'http'}://${host}`;
}

/** @throws ApiError 403 for a form that no page of this service sent */
export function requireSameOrigin(req: IncomingMessage, settings: Settings): void {
  if (isSameOrigin(req, settings)) return;
  throw new ApiError('insufficient_scope', 'This form was sent by a page of another site');
}

/** Without PUBLIC_URL only the host is compared, because the browser's scheme is unknown behind a proxy that is not listed as trusted. */
function isSameOrigin(req: IncomingMessage, settings: Settings): boolean {
  const { origin, 'sec-fetch-site': site } = req.headers;
  if (site !== undefined && site !== 'same-origin') return false;
  if (origin === undefined || !/^https?:\/\/[^/]+$/.test(origin)) return false;
  if (settings.PUBLIC_URL !== undefined) return origin === new URL(settings.PUBLIC_URL).origin;
  return origin.slice(origin.indexOf('//') + 2) === req.headers.host;
}
