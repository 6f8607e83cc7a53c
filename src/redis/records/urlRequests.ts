/**
 * A publisher's request for another URL, one of a client: sealed among its secrets (secrets.ts), in a field that has its state. An answered
 * one is shown for as long as one waits. An index has every client that may have one that waits.
 */
import { randomBytes } from 'node:crypto';
import { shared } from '../../constants.js';
import { mapInPages } from '../../promises.js';
import { type Db, nowOf } from '../connection/db.js';
import { runScript } from '../connection/library.js';
import { unlessBroken } from '../connection/unavailable.js';
import type { SecretBox } from './secretBox.js';
import { ownerOf } from './secrets.js';

export const urlRequestStates = ['waiting', 'accepted', 'declined', 'void'] as const;
type State = (typeof urlRequestStates)[number];

interface Asked {
  url: string;
  reason: string;
  /** Who asked: a token or a session. */
  by: string;
  /** ms */
  at: number;
}

export interface UrlRequest extends Asked {
  clientToken: string;
  request: string;
  state: State;
  /** Until when it waits, or its answer is shown, ms. */
  until: number;
}

/** Keeps a request, in the place of an earlier one. @returns its reference; undefined if the client has no URL */
export async function askForUrl(db: Db, box: SecretBox, clientToken: string, asked: Omit<Asked, 'at'>) {
  const at = nowOf(db);
  const request = `req_${randomBytes(6).toString('hex')}`;
  const field = `asked:${at + shared.urlRequestMs}:waiting:${request}`;
  const sealed = box.seal(JSON.stringify({ ...asked, at }), ownerOf(clientToken, field));
  const { urlRequests } = db.global;
  await db.redis.zadd(urlRequests, at + shared.urlRequestMs, clientToken);
  await db.redis.zremrangebyscore(urlRequests, '-inf', at - shared.urlRequestMs);
  const isKept = (await runScript(db, 'askUrl', clientToken, [field, sealed])) === 1;
  return isKept ? request : undefined;
}

/** Reads the last request of a client. @throws SecretUnreadable */
export async function readUrlRequest(db: Db, box: SecretBox, clientToken: string) {
  const fields = Object.entries(await db.redis.hgetall(db.client(clientToken).signingSecrets));
  for (const [field, sealed] of fields) {
    const [, till, state, request] = /^asked:(\d+):(\w+):(\S+)$/.exec(field) ?? [];
    if (request === undefined) continue;
    const until = Number(till);
    const isVoid = state === 'waiting' && until <= nowOf(db);
    const asked = JSON.parse(box.open(sealed, ownerOf(clientToken, field))) as Asked;
    return { clientToken, ...asked, request, until, state: (isVoid ? 'void' : state) as State };
  }
  return undefined;
}

/**
 * Lists the requests that wait, the oldest first.
 * @param onBroken is told why the request of a client cannot be read
 * @param only of this client
 */
export async function waitingUrlRequests(
  db: Db,
  box: SecretBox,
  onBroken: (clientToken: string, err: unknown) => void,
  only?: string,
): Promise<UrlRequest[]> {
  const clients = only === undefined ? await db.redis.zrange(db.global.urlRequests, '0', '-1') : [only];
  const found = await mapInPages(clients, 50, (clientToken) =>
    unlessBroken(readUrlRequest(db, box, clientToken), (err) => onBroken(clientToken, err)),
  );
  return found.flatMap((one) => (one?.state === 'waiting' ? [one] : [])).sort((a, b) => a.at - b.at);
}

/** Declines a request. @returns false if it waits no more */
export const declineUrl = async (db: Db, clientToken: string, request: string) =>
  (await runScript(db, 'declineUrl', clientToken, [request])) === 1;
