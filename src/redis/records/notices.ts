/**
 * Notices about clients, and the clients that get them: `notices:<account id>` and `notices:platform` have a registration,
 * secrets and owed assets like any client, but no customer can name them.
 */
import { type ClientToken, noticesClient } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { runScript } from '../connection/library.js';
import { type Account, getAccount, holdAsOwner, platformScope } from './accounts.js';
import { ChangeRefused, getClient } from './clients.js';
import { removeNoticesUrl } from './deletion.js';
import { entryOf } from './nameIndex.js';
import { changeRegistration, getRegistration, markAnswered, register } from './registrations.js';
import type { SecretBox } from './secretBox.js';

export const noticesRecipient = ({ accountId, scopes }: Pick<Account, 'accountId' | 'scopes'>): ClientToken =>
  noticesClient(scopes.includes(platformScope) ? 'platform' : accountId);

/**
 * Registers or changes the URL for an account's notices; makes the client and its signing secret if there are none. Safe to
 * repeat. The platform's client belongs to the account that set its URL last. The caller sets the alarm of catch-up.
 * @param replaces is called before a URL is replaced, of each if other calls set some meanwhile
 * @throws ChangeRefused
 */
export async function setNoticesUrl(
  db: Db,
  box: SecretBox,
  accountId: string,
  url: string,
  replaces: (client: ClientToken, present: string) => Promise<void> = async () => {},
): Promise<void> {
  for (let set: ClientToken | undefined; ; ) {
    const account = await getAccount(db, accountId);
    if (account === undefined) throw new ChangeRefused('there is no such account');
    const clientToken = noticesRecipient(account);
    if (set === clientToken) return;
    // An operator has changed its scopes meanwhile.
    if (set !== undefined) await removeNoticesUrl(db, set, url);
    set = undefined;
    // Before the URL: an operator who disables the account finds the client.
    await Promise.all([
      db.redis.sadd(db.global.clients, clientToken),
      db.redis.sadd(db.global.accountClients(accountId), clientToken),
      db.redis.hsetnx(db.global.clientIndex, clientToken, entryOf('Notices')),
    ]);
    const present = (await getRegistration(db, clientToken))?.url;
    const before = await getClient(db, clientToken);
    if (present === undefined) {
      const registered = await register(db, box, clientToken, url, { owner: accountId });
      if (registered.outcome === 'taken') continue;
      await markAnswered(db, clientToken, registered.nonce);
    } else {
      await replaces(clientToken, present);
      const seen = { present, owner: accountId };
      if (!(await changeRegistration(db, clientToken, url, 'publisher', seen))) continue;
    }
    if (before && before.accountId !== accountId)
      await db.redis.srem(db.global.accountClients(before.accountId), clientToken);
    await holdAsOwner(db, clientToken);
    set = clientToken;
  }
}

export const noticeKinds = [
  'endpoint.failing',
  'endpoint.suspended',
  'endpoint.recovered',
  'secret.rotated',
  'notifications.failed',
  'registration.changed',
] as const;
export type NoticeKind = (typeof noticeKinds)[number];

export const noticeFields = ['state_notice', 'secret_notice', 'failed_notice', 'url_notice'] as const;

/**
 * A notice that is not claimed yet, in the hash of the client's endpoint. The script that changes the state or the secret
 * writes it, so a process that ends afterwards loses none. Each field holds only the newest one. Times are ms.
 */
export interface Notice {
  field: (typeof noticeFields)[number];
  stored: string;
  kind: NoticeKind;
  /** Later notices about the client have greater numbers: Redis' time, ms, unless its clock was set back. */
  number: number;
  at: number;
  reason: string;
  since: number;
  attempts_failed: number;
}

/** Reads a client's notices. @throws if one is broken */
export async function unclaimedNotices(db: Db, clientToken: string): Promise<Notice[]> {
  const found = await db.redis.hmget(db.client(clientToken).endpoint, ...noticeFields);
  return noticeFields.flatMap((field, i) => {
    const stored = found[i];
    return stored ? { ...(JSON.parse(stored) as Omit<Notice, 'field' | 'stored'>), field, stored } : [];
  });
}

/** Removes a notice that was claimed, unless a newer one has replaced it. */
export async function dropNotice(db: Db, clientToken: string, { field, stored }: Notice): Promise<void> {
  await runScript(db, 'dropNotice', clientToken, [field, stored]);
}
