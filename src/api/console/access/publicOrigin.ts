import type { IncomingMessage } from 'node:http';
import type { Config } from '../../../config.js';
import { badParameter } from '../../apiError.js';
import { isFromTrustedProxy } from '../../clientAddress.js';

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

/**
 * Returns whether a page of this service sent the request. Without PUBLIC_URL only the host is compared, because the
 * browser's scheme is unknown behind a proxy that is not listed as trusted.
 */
export function isSameOrigin(req: IncomingMessage, settings: Settings): boolean {
  const { origin, 'sec-fetch-site': site } = req.headers;
  if (site !== undefined && site !== 'same-origin') return false;
  if (origin === undefined || !/^https?:\/\/[^/]+$/.test(origin)) return false;
  if (settings.PUBLIC_URL !== undefined) return origin === new URL(settings.PUBLIC_URL).origin;
  return origin.slice(origin.indexOf('//') + 2) === req.headers.host;
}

/**
 * After `#` the token stays in the browser: no log of a proxy, no `Referer` and no preview of a chat has it, and a
 * program that fetches the address does not use up the link.
 */
export const linkUrl = (origin: string, token: string): string => `${origin}/console/open#${token}`;
