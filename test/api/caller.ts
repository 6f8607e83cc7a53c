/** How tests call the API as a customer, and what they arrange in the store for it. */
import type { Db } from '../../src/redis/connection/db.js';
import type { RunningApi } from '../service.js';

export type Json = Record<string, unknown>;

/** Calls with a token, about a client (which the query names, unless there is none). A text is sent as it is. */
export async function callAs(
  { url }: Pick<RunningApi, 'url'>,
  { token, client_token }: { token: string; client_token?: string | undefined },
  [method, path, body]: readonly [method: string, path: string, body?: unknown],
): Promise<{ status: number; headers: Headers; text: string; body: Json }> {
  const asked = new URL(path, url);
  if (client_token !== undefined) asked.searchParams.set('client_token', client_token);
  const answer = await fetch(asked, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: body === undefined || typeof body === 'string' ? body : JSON.stringify(body),
    // A call that waits for Temporal takes 9 s or more.
    signal: AbortSignal.timeout(8000),
  });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, text, body: JSON.parse(text) as Json };
}

/** Forgets the calls of a client that sent something: the next five are within its limit. */
export async function forgetSends(db: Db, clientToken: string): Promise<void> {
  await db.redis.del(db.client(clientToken).sendLimit);
}
