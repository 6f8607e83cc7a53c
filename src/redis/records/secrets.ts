/**
 * A client's secrets, sealed, in one hash (`{T}:signing-secrets`), so that an attempt and a change of keys handle all of them
 * together:
 *   current                        the signing secret (`whsec_`)
 *   previous:<until>:<n>           a previous one that still signs until then (ms)
 *   header:<name, in lower case>   the value of a header that each request to the client's URL carries, such as the key of a
 *                                  gateway in front of its receiver
 *   waiting:<name>                 of one that was set without a URL: for the next one that a caller with the right to set it registers
 *   left:<SHA-1 of a URL>:<name>   of one that was left behind with that URL, when an operator changed or removed it
 *   former:<until>:<reference>     a URL that an operator has changed or removed, until then (ms), which an operator can put back
 *   asked:<until>:<state>:<reference>  the publisher's last request for another URL (urlRequests.ts)
 */
import { randomBytes } from 'node:crypto';
import { type Db, membersOf, nowOf, toPairs } from '../connection/db.js';
import { runScript } from '../connection/library.js';
import { isPlain, type SecretBox, SecretUnreadable } from './secretBox.js';

export const previousSigningSecretMs = 24 * 3600 * 1000;

/** A bound, because each secret adds a signature to the header of every notification. */
export const previousSigningSecretsAtMost = 10;

const previousPrefix = 'previous:';
const headerPrefix = 'header:';
const waitingPrefix = 'waiting:';
const leftPrefix = 'left:';
const formerPrefix = 'former:';
const ofHeader = /^(?:header|waiting|left:[\da-f]+):/;

type Fields = Readonly<Record<string, string>>;

const readFields = (db: Db, clientToken: string) => db.redis.hgetall(db.client(clientToken).signingSecrets);

/** Names in lower case, and values. */
export type RequestHeaders = Readonly<Record<string, string>>;

export interface Secrets {
  /** The current one, then the previous ones that still sign, newest first; empty before one was made. */
  signing: string[];
  headers: RequestHeaders;
  waiting: RequestHeaders;
}

/** @throws SecretUnreadable */
export const readSecrets = async (db: Db, box: SecretBox, clientToken: string): Promise<Secrets> =>
  openSecrets(box, clientToken, await readFields(db, clientToken), nowOf(db));

/** Reads the secrets, and the URL to which the headers belong, of one moment. @throws SecretUnreadable */
export async function readTarget(db: Db, box: SecretBox, clientToken: string) {
  const [registered, flat] = await runScript<[string, string[]]>(db, 'readTarget', clientToken);
  return { registered, ...openSecrets(box, clientToken, Object.fromEntries(toPairs(flat)), nowOf(db)) };
}

/** The fields of a known version are decrypted once. */
const opened = new WeakMap<Fields, Map<string, string>>();

/** Decrypts the fields of the hash. @throws SecretUnreadable */
export function openSecrets(box: SecretBox, clientToken: string, fields: Fields, nowMs: number): Secrets {
  const known = opened.get(fields) ?? new Map<string, string>();
  opened.set(fields, known);
  const open = (name: string) => {
    const secret = known.get(name) ?? box.open(fields[name] ?? '', ownerOf(clientToken, name));
    known.set(name, secret);
    return secret;
  };
  const names = Object.keys(fields);
  const headersIn = (prefix: string) =>
    Object.fromEntries(headerNames(names, prefix).map((name) => [name, open(prefix + name)]));
  return {
    signing: fields.current ? ['current', ...previousNames(names, nowMs)].map(open) : [],
    headers: headersIn(headerPrefix),
    // A delivery asks for none: one that cannot be read holds none up.
    get waiting() {
      return headersIn(waitingPrefix);
    },
  };
}

/** Returns until when each previous one still signs, ms, the latest first. */
export async function previousSigningSecretsUntil(db: Db, clientToken: string): Promise<number[]> {
  const names = await db.redis.hkeys(db.client(clientToken).signingSecrets);
  return previousNames(names, nowOf(db)).map(untilMs);
}

const untilMs = (name: string): number => Number(name.split(':')[1]);

function previousNames(names: readonly string[], nowMs: number): string[] {
  return names
    .filter((name) => name.startsWith(previousPrefix) && untilMs(name) > nowMs)
    .sort((a, b) => untilMs(b) - untilMs(a));
}

/** Returns the client's current secret, and makes it if there is none. Concurrent callers get the same one. */
export async function createSigningSecret(db: Db, box: SecretBox, clientToken: string): Promise<string> {
  const owner = ownerOf(clientToken, 'current');
  const made = box.seal(newSigningSecret(), owner);
  return box.open(await runScript<string>(db, 'createSigningSecret', clientToken, [made]), owner);
}

/**
 * Makes a new secret. The former one still signs for 24 h, like each earlier one for its own 24 h. It refuses while
 * ten still sign, so that no secret that a receiver still uses ends early. With `now`, for a secret that somebody else has
 * seen, every earlier one ends immediately.
 * @returns `too_many`: ten previous secrets still sign, and the oldest of them ends after `waitMs`
 */
export async function rotateSigningSecret(db: Db, box: SecretBox, clientToken: string, { now = false } = {}) {
  const signingSecret = newSigningSecret();
  const sealed = box.seal(signingSecret, ownerOf(clientToken, 'current'));
  const name = randomBytes(4).toString('hex');
  const args = [sealed, now ? 0 : previousSigningSecretMs, name, previousSigningSecretsAtMost];
  const [done, number] = await runScript<[0 | 1, number?]>(db, 'rotateSigningSecret', clientToken, args);
  if (done === 0) return { outcome: 'too_many' as const, waitMs: Number(number) };
  return { outcome: 'rotated' as const, signingSecret, previousValidUntilMs: number };
}

/** Returns how long until the secret may be rotated, ms; 0 if it may be rotated now. */
export async function rotationWaitMs(db: Db, clientToken: string): Promise<number> {
  const until = await previousSigningSecretsUntil(db, clientToken);
  const oldest = until[previousSigningSecretsAtMost - 1];
  return oldest === undefined ? 0 : oldest - nowOf(db);
}

/** Standard Webhooks 1.0.0: `whsec_` and the base64 of 24 to 64 bytes. */
export const newSigningSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`;

/** Replaces all of the client's headers. The next attempt that is taken sends them; without a URL they wait for one. */
export async function setRequestHeaders(db: Db, box: SecretBox, clientToken: string, wanted: RequestHeaders) {
  const headers = Object.entries(wanted).flatMap(([name, value]) => {
    return [name, box.seal(value, ownerOf(clientToken, headerPrefix + name))];
  });
  await runScript(db, 'setRequestHeaders', clientToken, headers);
}

/** Reads only the names, sorted; this needs no key. `waiting`: for a URL; `left`: behind with a former URL. */
export async function requestHeaderNames(db: Db, clientToken: string) {
  const names = await db.redis.hkeys(db.client(clientToken).signingSecrets);
  const [sent = [], waiting = [], left = []] = [headerPrefix, waitingPrefix, leftPrefix].map((prefix) =>
    headerNames(names, prefix),
  );
  return { sent, waiting, left };
}

const headerNames = (names: readonly string[], prefix: string): string[] =>
  names
    .filter((name) => name.startsWith(prefix))
    .map(nameOf)
    .sort();

const nameOf = (field: string): string => field.replace(ofHeader, '');

/** Returns the owner for whom a field of the hash is sealed. Neither part has a space. */
export const ownerOf = (clientToken: string, field: string): string =>
  `${clientToken} ${/^(former|asked):/.exec(field)?.[1] ?? (ofHeader.test(field) ? headerPrefix + nameOf(field) : 'signing')}`;

const formerMs = 90 * 86_400_000;

/** Seals a URL that is about to be changed or removed. Without a key nothing is kept. @returns its reference for the audit, and where it is kept */
export function sealFormer(db: Db, box: SecretBox, clientToken: string, url: string) {
  const former = `url_${randomBytes(6).toString('hex')}`;
  const field = `${formerPrefix}${nowOf(db) + formerMs}:${former}`;
  const sealed = box.seal(url, ownerOf(clientToken, field));
  return isPlain(sealed) ? undefined : { former, field, sealed };
}

/** Lists the former URLs that are kept, the newest first. Times are ms; `open` throws SecretUnreadable. */
export async function formerUrls(db: Db, box: SecretBox, clientToken: string) {
  const fields = Object.entries(await readFields(db, clientToken));
  const kept = fields.flatMap(([field, sealed]) => {
    const [, until, former = ''] = field.split(':');
    if (!field.startsWith(formerPrefix) || Number(until) <= nowOf(db)) return [];
    const open = () => box.open(sealed, ownerOf(clientToken, field));
    return { former, field, open, until: Number(until), since: Number(until) - formerMs };
  });
  return kept.sort((a, b) => b.until - a.until);
}

/** Drops the former URLs and the request for another URL of a client that were kept for long enough. */
export const dropFormer = (db: Db, clientToken: string) => runScript(db, 'dropFormer', clientToken);

/**
 * Encrypts all secrets of all clients with the newest key of `SECRETS_KEY`. Safe to repeat.
 * @returns how many were not encrypted with it before, how many were, and the clients with a secret whose key is missing
 */
export async function reencryptSigningSecrets(db: Db, box: SecretBox) {
  const counts = { reencrypted: 0, unchanged: 0, unreadable: [] as string[] };
  const reencryptOf = async (clientToken: string) => {
    try {
      for (const [field, sealed] of Object.entries(await readFields(db, clientToken))) {
        if (!box.isOutdated(sealed)) {
          counts.unchanged++;
          continue;
        }
        const owner = ownerOf(clientToken, field);
        const args = [field, sealed, box.seal(box.open(sealed, owner), owner)];
        counts.reencrypted += await runScript<number>(db, 'reencrypt', clientToken, args);
      }
    } catch (err) {
      if (!(err instanceof SecretUnreadable)) throw err;
      counts.unreadable.push(clientToken);
    }
  };
  for await (const some of membersOf(db, db.global.clients))
    for (const clientToken of some) await reencryptOf(clientToken);
  counts.unreadable.sort();
  return counts;
}
