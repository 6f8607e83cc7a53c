import assert from 'node:assert/strict';
import { notificationId } from '../../src/ids.js';
import { claimAgain } from '../../src/redis/owed/claim.js';
import { announceClaims } from '../../src/redis/owed/owedClients.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { markAnswered, register } from '../../src/redis/records/registrations.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { type Cli, openCli } from './cli.js';

describe('operator: notification, explain, status', () => {
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
    const { workflows } = await found(() => cli.json('explain', 'REDELIVERED', 'vid-1'));
    assert.ok(
      workflows.some(
        (w: { workflow_id: string }) => w.workflow_id === `${cli.env.TASK_QUEUE}/catch-up/REDELIVERED`,
      ),
    );
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
    assert.deepEqual(why.workflows, []);
    const nothing = await cli.json('explain', 'EXPLAINED', 'vid-2');
    assert.deepEqual([nothing.last_event, nothing.last_notification], [null, null]);
  });

  it('status shows the oldest owed, totals and worst endpoints, and in one line whether it is us or them', async () => {
    await owing('STATUS', 'vid-1');
    await owing('TRIED', 'vid-1');
    await setPaused(cli.db, 'STATUS', true);
    const status = await cli.json('status');
    assert.equal(status.verdict, 'us', 'no worker runs');
    assert.match(status.because, /No worker/);
    assert.ok(status.owed >= 1);
    assert.notEqual(status.oldest_owed_live.client_token, 'STATUS', 'a paused client is not tried');
    assert.ok(Date.parse(status.oldest_owed_live.since) <= Date.now());
    assert.equal(status.workers, 0);
    assert.deepEqual(
      status.worst.filter((e: { client_token: string }) => e.client_token === 'STATUS').length,
      1,
    );
    const ran = await cli.run(['status']);
    assert.match(ran.stdout, /^It is us\. No worker/);
  });

  /** Visibility lags behind what was started. */
  // biome-ignore lint/suspicious/noExplicitAny: what the command prints
  async function found(ask: () => Promise<any>): Promise<any> {
    for (;;) {
      const answer = await ask();
      if (answer.workflows.length > 0) return answer;
    }
  }
});
