import assert from 'node:assert/strict';
import { Client, Connection } from '@temporalio/client';
import { notificationId } from '../../src/ids.js';
import { claimAgain } from '../../src/redis/owed/claim.js';
import { announceClaims } from '../../src/redis/owed/owedClients.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { markAnswered, register } from '../../src/redis/records/registrations.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { servers } from '../servers.js';
import { type Cli, openCli } from './cli.js';

describe('operator: notification, explain', () => {
  let cli: Cli;
  let accountId: string;
  const url = 'http://127.0.0.1:4997/hook';

  before(async () => {
    cli = await openCli();
    accountId = (await createAccount(cli.db, { name: 'Acme' })).account_id;
  });
  after(() => cli.close());

  async function owing(clientToken: string, ...assets: string[]): Promise<string[]> {
    await createClient(cli.db, { accountId, name: 'Site', clientToken });
    const result = await register(cli.db, createSecretBox(undefined), { clientToken, accountId, url });
    assert.equal(result.outcome, 'stored');
    await markAnswered(cli.db, clientToken, result.nonce);
    await announceClaims(cli.db, [clientToken]);
    const ids: string[] = [];
    for (const platformId of assets) {
      const event = { clientToken, platformId, eventId: 'an-1', segments: ['iab:17'] };
      const id = notificationId(event);
      await claimAgain(cli.db, {
        ...event,
        notificationId: id,
        priority: 'live',
        claim: 1,
        acceptedAt: Date.now(),
      });
      ids.push(id);
    }
    return ids;
  }

  it('notification list [--client T] [--state S] lists notifications, notification show ID shows one', async () => {
    const ids = await owing('LISTED', 'vid-1', 'vid-2');
    const listed = await cli.json('notification', 'list', '--client', 'LISTED', '--state', 'waiting');
    assert.deepEqual(listed.map((n: { notification_id: string }) => n.notification_id).sort(), ids.sort());
    assert.deepEqual(await cli.json('notification', 'list', '--state', 'failed'), []);
    const all = await cli.json('notification', 'list', '--limit', '1');
    assert.equal(all.length, 1);
    const shown = await cli.json('notification', 'show', String(ids[0]));
    assert.equal(shown.client_token, 'LISTED');
    assert.equal(shown.event_id, 'an-1');
    assert.equal(shown.state, 'waiting');
    assert.deepEqual(shown.attempts, []);
  });

  it('notification show ID refuses an unknown one', async () => {
    const ran = await cli.run(['notification', 'show', 'msg_0123456789012345678901', '--json']);
    assert.deepEqual([ran.status, ran.stdout], [1, '']);
    assert.match(ran.stderr, /There is no notification msg_0123456789012345678901/);
  });

  it('notification cancel ID ends it as cancelled, once, and is recorded', async () => {
    const [id = ''] = await owing('CANCELLED', 'vid-1');
    assert.deepEqual(await cli.json('notification', 'cancel', id), {
      notification_id: id,
      client_token: 'CANCELLED',
      state: 'cancelled',
    });
    assert.equal((await cli.json('notification', 'show', id)).state, 'cancelled');
    const again = await cli.run(['notification', 'cancel', id]);
    assert.equal(again.status, 1);
    assert.match(again.stderr, /it is cancelled/);
    const audit = await cli.json('audit');
    const change = audit.find((c: { target: string }) => c.target === id);
    assert.deepEqual(
      [change.what, change.before.state, change.after.state],
      ['notification cancel', 'waiting', 'cancelled'],
    );
  });

  it('notification redeliver ID makes a waiting one due immediately and wakes catch-up; it is refused without a URL', async () => {
    const [id = ''] = await owing('REDELIVERED', 'vid-1');
    assert.equal((await cli.json('notification', 'redeliver', id)).previous_state, 'waiting');
    const { catch_up_id } = await cli.json('explain', 'REDELIVERED', 'vid-1');
    assert.equal(catch_up_id, `${cli.env.TASK_QUEUE}/catch-up/REDELIVERED`);
    const connection = await Connection.connect({ address: servers().temporalAddress });
    const { status } = await new Client({ connection }).workflow.getHandle(catch_up_id).describe();
    await connection.close();
    assert.equal(status.name, 'RUNNING');
    assert.equal((await cli.json('registration', 'reset', 'REDELIVERED')).owed, 1);
    const ran = await cli.run(['notification', 'redeliver', id]);
    assert.deepEqual([ran.status, ran.stderr], [1, 'REDELIVERED has no URL, so nothing can be sent.\n']);
  });

  it('notification recover T --since W [--dry-run] counts', async () => {
    await owing('RECOVERED');
    const dry = ['notification', 'recover', 'RECOVERED', '--since', '2h', '--dry-run'];
    assert.deepEqual(await cli.json(...dry), { client_token: 'RECOVERED', count: 0, dry_run: true });
    assert.equal((await cli.json(...dry.slice(0, -1))).count, 0);
  });

  it('explain T PLATFORM_ID says why something was or was not sent', async () => {
    const [id] = await owing('EXPLAINED', "vid '1\\");
    const why = await cli.json('explain', 'EXPLAINED', "vid '1\\");
    assert.equal(why.last_event.decision, 'queued');
    assert.equal(why.last_notification.notification_id, id);
    const nothing = await cli.json('explain', 'EXPLAINED', 'vid-2');
    assert.deepEqual([nothing.last_event, nothing.last_notification], [null, null]);
  });
});
