/** Every call of the description, a correct request for each, and all that a call may change. */
import { openapi } from '../../src/api/reference/openapi.js';
import { keysMatching } from '../keysMatching.js';
import { type Customer, type Harness, tokenFields } from '../service.js';

/** The subject of a call. The receiver's URL is registered for the client. */
export interface Subject {
  client_token: string;
  id: string;
  platform_id: string;
  event_id: string;
}

export const calls = Object.entries(openapi.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => {
    const names = operation.parameters.map((one) => one.name);
    const content = operation.requestBody?.content;
    return {
      name: `${method.toUpperCase()} ${path}`,
      path,
      method,
      operation,
      names,
      isJson: Boolean(content?.['application/json']),
      isForm: content !== undefined && !content['application/json'],
      needsToken: operation.security.length > 0,
      /** The token may also come as the parameter access_token. */
      isRegistration: path === '/register_push_notifications',
      /** Takes a token with the scope enrichments only. */
      isPublishing: path === '/enrichments' || (method === 'delete' && path.startsWith('/assets')),
      isAboutClient: names.includes('client_token'),
      /** The platform may ask for any client, too. */
      isForPlatform: path.startsWith('/events/') || path.startsWith('/assets'),
    };
  }),
);
export type Call = (typeof calls)[number];

/** The values of a correct request to the call: of its path, its required parameters and its body. */
export function requestOf(
  { path, operation, isJson, isForm }: Call,
  subject: Subject,
  { url, owner }: { url: string; owner: Customer },
) {
  const query = new URLSearchParams();
  for (const { name, in: where, required } of operation.parameters) {
    if (where === 'query' && required) query.set(name, subject[name as keyof Subject] ?? url);
  }
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: keyof Subject) => encodeURIComponent(subject[name]));
  const { client_token, platform_id } = subject;
  const bodies: Record<string, object> = {
    '/enrichments': { client_token, platform_id, segments: [] },
    '/notices': { url },
    '/notifications/dismiss': { since: '2026-01-01T00:00:00Z', reason: 'sent by hand' },
    '/push_notifications/url_request': { url: `${url}/moved`, reason: 'we have moved' },
    '/push_notifications/quiet_period': { seconds: 0 },
    '/push_notifications/headers': { headers: {} },
  };
  const json = isJson ? (bodies[path] ?? { since: '2026-01-01T00:00:00Z' }) : undefined;
  const form = isForm ? { ...tokenFields(owner), token: 'unknown' } : undefined;
  return { filled, query, json, form };
}

/**
 * Everything that Redis holds of the clients and accounts, but counts of attempts, which are written seconds later, and
 * the processes and the clock, which are noted every few seconds.
 */
export async function everything(h: Harness): Promise<string[]> {
  const { redis } = h.db;
  const passing =
    /access-token|account-call:|account-rate|decision:|call-rate:|disk-mark|token-failures|token-rate|attempts-by:|calls:\d|clock$|processes$/;
  const keys = await keysMatching(h.db, `${h.prefix}*`);
  const kept = keys.filter((key) => !passing.test(key)).sort();
  return await Promise.all(
    kept.map(async (key) => `${key} ${(await redis.dumpBuffer(key))?.toString('base64')}`),
  );
}
