/**
 * A client's own headers, which each request to its URL carries, such as the key of a gateway in front of its receiver.
 * Their values are secrets, sealed like signing secrets and in the same hash, `{T}:signing-secrets`: an attempt, an export,
 * an import and a change of keys handle both together.
 *   header:<name, in lower case>   a sealed value
 */
import type { Db } from '../connection/db.js';
import { runScript } from '../connection/library.js';
import type { SecretBox } from './secretBox.js';
import { useOfField } from './signingSecrets.js';

/** Names in lower case, and values. */
export type RequestHeaders = Readonly<Record<string, string>>;

const prefix = 'header:';

/** Replaces all of the client's headers. The next attempt that is taken sends them. */
export async function setRequestHeaders(
  db: Db,
  box: SecretBox,
  clientToken: string,
  wanted: RequestHeaders,
): Promise<void> {
  const headers = Object.entries(wanted).flatMap(([name, value]) => {
    const use = `${prefix}${name}` as const;
    return [use, box.seal(value, { clientToken, use })];
  });
  await runScript(db, 'setRequestHeaders', clientToken, headers);
}

/** Reads only the names, sorted; this needs no key. */
export async function requestHeaderNames(db: Db, clientToken: string): Promise<string[]> {
  const fields = await db.redis.hkeys(db.client(clientToken).signingSecrets);
  return fields
    .filter((field) => field.startsWith(prefix))
    .map(nameOf)
    .sort();
}

/** @throws SecretUnreadable */
export async function requestHeaders(db: Db, box: SecretBox, clientToken: string): Promise<RequestHeaders> {
  return decodeRequestHeaders(
    box,
    clientToken,
    await db.redis.hgetall(db.client(clientToken).signingSecrets),
  );
}

/** Reads the headers from the raw fields of the hash. @throws SecretUnreadable */
export function decodeRequestHeaders(
  box: SecretBox,
  clientToken: string,
  fields: Readonly<Record<string, string>>,
): RequestHeaders {
  const names = Object.keys(fields).filter((field) => field.startsWith(prefix));
  if (names.length === 0) return none;
  return Object.fromEntries(
    names.sort().map((field) => {
      const of = { clientToken, use: useOfField(field) };
      return [nameOf(field), box.open(fields[field] ?? '', of)];
    }),
  );
}

const none: RequestHeaders = {};

const nameOf = (field: string): string => field.slice(prefix.length);
