/** The first steps of each page of the console, and the check of every form. */
import { hash, timingSafeEqual } from 'node:crypto';
import type { Context } from 'koa';
import type { Client } from '../../../redis/records/clients.js';
import {
  type ConsoleSession,
  consoleSessionMs,
  findConsoleSession,
} from '../../../redis/records/consoleSessions.js';
import { ApiError } from '../../apiError.js';
import type { ApiDeps, Step } from '../../step.js';
import type { Form } from '../../steps/form.js';
import { ownClientOr, type PublisherState } from '../../steps/publisher.js';
import { isSameOrigin, publicOrigin } from './publicOrigin.js';

export interface SessionState extends PublisherState {
  client: Client;
  session: ConsoleSession;
  /** The token that every form of the session contains. */
  formToken: string;
}

export interface FormState extends SessionState {
  form: Form;
}

/**
 * Returns the secret of the browser's session; undefined if it sent none. If the browser uses https, a cookie that an
 * http page may have set is ignored.
 */
export function secretOf({ req, cookies }: Pick<Context, 'req' | 'cookies'>, { config }: ApiDeps) {
  const isSecure = publicOrigin(req, config).startsWith('https:');
  return cookies.get(securedName) ?? (isSecure ? undefined : cookies.get(plainName));
}

/** Finds the session, and its account in the form of an access token. Without a session it redirects to /console/open. */
export const requireSession =
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
        ctx.status = 303;
        ctx.set('Location', '/console/open');
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
    const { site = '' } = ctx.params;
    try {
      const { accountId } = ctx.state.session;
      ctx.state.client = await ownClientOr('unknown_client', db, { clientToken: site, accountId });
    } catch (err) {
      if (!(err instanceof ApiError)) throw err;
      throw new ApiError('not_found', 'This account has no such site');
    }
    await next();
  };

/** Requires a form that a page of this session sent, and a session that may act. @throws ApiError 403 */
export const requireOwnForm =
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
export const endedCookies = [
  `${plainName}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0`,
  `${securedName}=; Secure; Path=/; HttpOnly; SameSite=Lax; Max-Age=0`,
];
