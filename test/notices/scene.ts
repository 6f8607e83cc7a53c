/** Makes sites whose endpoints can fail, each with its own account that gets notices. */
import assert from 'node:assert/strict';
import { Webhook } from 'standardwebhooks';
import { noticesClient } from '../../src/ids.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { type NoticeKind, setNoticesUrl } from '../../src/redis/records/notices.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { createSigningSecret } from '../../src/redis/records/secrets.js';
import { type Received, type Receiver, startGate, startReceiver, until } from '../receiver.js';
import type { Harness } from '../service.js';

export interface Site {
  accountId: string;
  client: string;
  notices: string;
  secret: string;
}

export type NoticesScene = Awaited<ReturnType<typeof startScene>>;

export const box = createSecretBox(undefined);

export async function startScene(h: Harness) {
  const [hooks, told] = [await startReceiver(), await startReceiver()];
  const down = new Map<string, number>();
  /** The answers to a client wait for this. */
  const held = new Map<string, Promise<void>>();
  hooks.answer = async ({ headers }) => {
    const client = String(headers['webhook-client-token']);
    await held.get(client);
    return down.get(client) ?? 200;
  };
  let count = 0;
  return {
    down,
    /** The receiver of the accounts' notices; its answer may be changed. */
    told,
    async newSite(): Promise<Site> {
      const { account_id: accountId } = await createAccount(h.db, { name: 'A media company' });
      const client = `SITE${h.db.prefix}told${++count}`;
      await createClient(h.db, { accountId, name: 'A site', clientToken: client });
      await h.registerUrl(client, hooks.url);
      await setNoticesUrl(h.db, box, accountId, `${told.url}?key=hush`);
      const notices = noticesClient(accountId);
      return { accountId, client, notices, secret: await createSigningSecret(h.db, box, notices) };
    },
    /** Publishes three events, and fails them once all three are owed. */
    async fail({ client }: Site): Promise<void> {
      const gate = startGate();
      held.set(client, gate.closed);
      down.set(client, 500);
      for (let n = 0; n < 3; n++) await h.publish({ client, asset: `vid-${n}` });
      gate.open();
    },
  };
}

export interface ToldNotice {
  event: NoticeKind;
  account_id: string;
  client_token: string;
  at: string;
  reason: string;
  since: string;
  attempts_failed: number;
  owed: number;
}

/** Returns the requests that a receiver got about a client, of one kind if it is named. */
export const receivedOf = ({ received }: Receiver, client: string, kind?: NoticeKind): Received[] =>
  received.filter(({ body }) => {
    const notice = JSON.parse(body) as ToldNotice;
    return notice.client_token === client && (kind === undefined || notice.event === kind);
  });

/** Waits until a receiver got this many of a kind about a client; verifies each with a public library. */
export async function toldOf(
  receiver: Receiver,
  client: string,
  kind: NoticeKind,
  secret: string,
  count = 1,
): Promise<ToldNotice[]> {
  const got = await until(`${kind} of ${client}`, () => {
    const found = receivedOf(receiver, client, kind);
    return found.length >= count && found;
  });
  return got.map(({ headers, body }) => {
    assert.match(String(headers['webhook-id']), /^msg_[\w-]{22}$/);
    assert.equal(headers['content-type'], 'application/json');
    return new Webhook(secret).verify(body, headers as Record<string, string>) as ToldNotice;
  });
}
