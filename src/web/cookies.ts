/** Where browsers reach these pages, and the cookies of their sessions. */
import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Context } from 'koa';
import type { Config } from '../config.js';
import { ApiError, badParameter } from '../http/apiError.js';
import { isFromTrustedProxy } from '../http/clientAddress.js';

/** Where browsers reach these pages: PUBLIC_URL, else the Host of each request. */
export type Reached = Pick<Config, 'PUBLIC_URL' | 'TRUSTED_PROXIES'>;

/** @param plainName the cookie's name over http */
export function sessionCookies(plainName: string, reached: Reached) {
  /** The name over https: no other host and no http page can set a cookie of this name. */
  const securedName = `__Host-${plainName}`;

  /** Lax: a link to a page works in a chat, and a form of another site sends no cookie. */
  function cookie(secret: string, isSecure: boolean, seconds: number): string {
    const name = isSecure ? `${securedName}=${secret}; Secure` : `${plainName}=${secret}`;
    return `${name}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${seconds}`;
  }

  return {
    /**
     * Returns the secret of the browser's session; empty if it sent none. If the browser uses https, a cookie that an
     * http page may have set is ignored.
     */
    secretOf({ req, cookies }: Pick<Context, 'req' | 'cookies'>): string {
      const isSecure = publicOrigin(req, reached).startsWith('https:');
      return cookies.get(securedName) ?? (isSecure ? undefined : cookies.get(plainName)) ?? '';
    },
    begin(ctx: Pick<Context, 'req' | 'get' | 'append'>, secret: string, ms: number): void {
      // The browser's Origin names https if no proxy does.
      const isSecure =
        publicOrigin(ctx.req, reached).startsWith('https:') || ctx.get('origin').startsWith('https:');
      ctx.append('Set-Cookie', cookie(secret, isSecure, ms / 1000));
    },
    end(ctx: Pick<Context, 'append'>): void {
      // The browser may have either cookie.
      ctx.append('Set-Cookie', [cookie('', false, 0), cookie('', true, 0)]);
    },
    /** Derives the token of the forms from the secret, which no page ever shows. */
    formTokenOf: (secret: string): string => hash('sha256', `${plainName} form ${secret}`, 'base64url'),
    /**
     * Requires a form that a page of this service sent. Without PUBLIC_URL only the host is compared: behind a proxy that is not
     * listed as trusted, the browser's scheme is unknown.
     * @throws ApiError 403
     */
    requireSameOrigin({ req }: Pick<Context, 'req'>): void {
      const { origin = '', host, 'sec-fetch-site': site = 'same-origin' } = req.headers;
      const own = reached.PUBLIC_URL
        ? [new URL(reached.PUBLIC_URL).origin]
        : [`http://${host}`, `https://${host}`];
      if (site === 'same-origin' && own.includes(origin)) return;
      const says = `This form was sent by a page of another site; these pages are at ${own.join(' or ')}`;
      throw new ApiError('insufficient_scope', says);
    },
  };
}

/**
 * Returns the origin under which browsers reach this service, such as `https://hooks.example.com`: PUBLIC_URL, else the
 * request's own Host, with the scheme that a trusted proxy names in X-Forwarded-Proto.
 * @throws ApiError 400 for an invalid Host
 */
export function publicOrigin(req: IncomingMessage, reached: Reached): string {
  if (reached.PUBLIC_URL !== undefined) return new URL(reached.PUBLIC_URL).origin;
  const { host = '' } = req.headers;
  if (!/^[A-Za-z0-9.:[\]-]{1,255}$/.test(host)) throw badParameter('The header Host is not a host');
  const isSecure =
    isFromTrustedProxy(req, reached.TRUSTED_PROXIES) && req.headers['x-forwarded-proto'] === 'https';
  return `${isSecure ? 'https' : 'http'}://${host}`;
}
