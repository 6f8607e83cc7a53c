/** Reads and sets the session's cookie. Over https its name begins with `__Host-`: no other host and no http page can set it. */
import type { IncomingMessage } from 'node:http';
import { consoleSessionMs } from '../../../redis/records/consoleSessions.js';

const plainName = 'console_session';
const securedName = `__Host-${plainName}`;

/** If the browser uses https, a cookie that an http page may have set is ignored. */
export function sessionSecretOf(req: IncomingMessage, isSecure: boolean): string | undefined {
  const given = new Map(
    (req.headers.cookie ?? '').split(';').map((pair) => {
      const equals = pair.indexOf('=');
      return [pair.slice(0, equals).trim(), pair.slice(equals + 1).trim()] as const;
    }),
  );
  return given.get(securedName) ?? (isSecure ? undefined : given.get(plainName));
}

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
