import type { IncomingMessage } from 'node:http';
import type { Config } from '../../../config.js';
import { badParameter } from '../../apiError.js';
import { isFromTrustedProxy } from '../../clientAddress.js';

type Settings = Pick<Config, 'PUBLIC_URL' | 'TRUSTED_PROXIES'>;

/**
 * Where browsers reach this service, such as `https://hooks.example.com`: PUBLIC_URL, else the request's own Host, whose
 * scheme a trusted proxy may say in X-Forwarded-Proto.
 * @throws ApiError 400 for a Host that is none
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
 * Whether a page of this service sent the request. Without PUBLIC_URL only the host is compared: which scheme a browser
 * uses is not known behind a proxy that nobody said is one.
 */
export function isSameOrigin(req: IncomingMessage, settings: Settings): boolean {
  const { origin, 'sec-fetch-site': site } = req.headers;
  if (site !== undefined && site !== 'same-origin') return false;
  if (origin === undefined || !/^https?:\/\/[^/]+$/.test(origin)) return false;
  if (settings.PUBLIC_URL !== undefined) return origin === new URL(settings.PUBLIC_URL).origin;
  return origin.slice(origin.indexOf('//') + 2) === req.headers.host;
}
