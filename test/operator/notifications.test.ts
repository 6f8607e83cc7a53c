import assert from 'node:assert/strict';
import { Client, Connection } from '@temporalio/client';
import { idFromBytes } from '../../src/ids.js';
import { announceClaims } from '../../src/redis/owed/owedClients.js';
import { forSuite, opened, servers } from '../servers.js';
import { openCli, owe, registeredClient } from './cli.js';

describe('operator: notification, explain', () => {
  const cli = forSuite(() => openCli());
  let accountId: string;

  before(async () => {
    accountId = (await cli.json('account', 'create', '--name', 'Acme')).account_id;
  });

  async function owing(clientToken: string, ...assets: string[]): Promise<string[]> {
    await registeredClient(cli, accountId, clientToken, 'http://127.0.0.1:4997/hook');
    await announceClaims(cli.db, clientToken);
    const ids: string[] = [];
    for (const platformId of assets) ids.push(await owe(cli, clientToken, platformId));
    return ids;
  }

  it('notification list [--client T] [--state S] lists those of a client in a state, at most as many as --limit', async () => {
    const ids = await owing('LISTED', 'vid-1', 'vid-2');
    const list = (...args: string[]) => cli.json('notification', 'list', ...args);
    const listed: { notification_id: string }[] = await list('--client', 'LISTED', '--state', 'waiting');
    assert.deepEqual(listed.map((n) => n.notification_id).sort(), ids.sort());
    assert.deepEqual([await list('--state', 'failed'), (await list('--limit', '1')).length], [[], 1]);
    const more = 'Showing 1. More results are available: raise the limit.\n';
    for (const args of [[], ['--json']]) {
      const { stderr } = await cli.run([
        ...'notification list --client LISTED --limit 1'.split(' '),
        ...args,
      ]);
      assert.equal(stderr, more, 'also to a program that reads the list');
    }
  });

  it('notification show ID refuses an unknown one, and says where else to look', async () => {
    const says = await cli.refused('notification', 'show', 'msg_0123456789012345678901', '--json');
    assert.match(says, /^There is no notification msg_0123456789012345678901: .* 14 days/);
    assert.match(says, /Temporal's UI .*: explain CLIENT PLATFORM_ID\.$/m);
  });

  it('notification cancel ID ends it as cancelled, once, and is recorded', async () => {
    const [id = ''] = await owing('CANCELLED', 'vid-1');
    const cancelled = await cli.json('notification', 'cancel', id);
    assert.deepEqual(cancelled, { notification_id: id, client_token: 'CANCELLED', state: 'cancelled' });
    assert.equal((await cli.json('notification', 'show', id)).state, 'cancelled');
    assert.match(await cli.refused('notification', 'cancel', id), /it is cancelled/);
    const [{ what, before, after }] = await cli.json('audit', '--of', id);
    assert.deepEqual([what, before.state, after.state], ['notification cancel', 'waiting', 'cancelled']);
  });

  it('notification redeliver ID makes a waiting one due immediately and wakes catch-up, or says why it is not sent; it is refused without a URL', async () => {
    const [id = ''] = await owing('REDELIVERED', 'vid-1');
    const said = async () => (await cli.run(['notification', 'redeliver', id])).stdout;
    assert.equal(await said(), `${id} (it was waiting) is due now.\n`);
    const { catch_up_id } = await cli.json('explain', 'REDELIVERED', 'vid-1');
    assert.equal(catch_up_id, `${cli.env.TASK_QUEUE}/catch-up/REDELIVERED`);
    const connection = opened(await Connection.connect({ address: servers().temporalAddress }));
    const { status } = await new Client({ connection }).workflow.getHandle(catch_up_id).describe();
    assert.equal(status.name, 'RUNNING');
    await cli.json('registration', 'pause', 'REDELIVERED');
    assert.equal(await said(), `${id} (it was waiting) is owed: deliveries are paused.\n`);
    const { previous_state, waiting_reason } = await cli.json('notification', 'redeliver', id);
    assert.deepEqual([previous_state, waiting_reason], ['waiting', 'paused']);
    assert.equal((await cli.json('audit', '--of', 'REDELIVERED')).at(-1).what, 'notification redeliver');
    const given = { notificationId: idFromBytes(Buffer.alloc(16, 1)), claim: 2 };
    const newer = await owe(cli, 'REDELIVERED', 'vid-1', given);
    const other = `Another of its asset that was owed or had failed, ${newer}, is owed`;
    assert.equal(await said(), `${other}: deliveries are paused.\n`);
    assert.equal((await cli.json('registration', 'reset', 'REDELIVERED')).owed, 1);
    assert.equal(await cli.refused('notification', 'redeliver', id), 'REDELIVERED has no URL.\n');
  });

  it('explain T PLATFORM_ID says why something was or was not sent; --event ID, what came of an event', async () => {
    const [id = ''] = await owing('EXPLAINED', "vid '1\\");
    const why = await cli.json('explain', 'EXPLAINED', "vid '1\\");
    assert.equal(why.last_event.decision, 'queued');
    assert.equal(why.last_notification.notification_id, id);
    await cli.json('registration', 'pause', 'EXPLAINED');
    const { stdout } = await cli.run(['explain', 'EXPLAINED', "vid '1\\"]);
    assert.match(stdout, /^The last event: queued: .* notification is waiting: deliveries are paused\.\n/);
    const nothing = await cli.json('explain', 'EXPLAINED', 'vid-2');
    assert.deepEqual([nothing.last_event, nothing.last_notification], [null, null]);
    assert.equal((await cli.json('explain', 'EXPLAINED', '--event', 'an-1')).notification_id, id);
    const unknown = await cli.refused('explain', 'EXPLAINED', '--event', 'an-2');
    assert.match(unknown, /^No kept notification of EXPLAINED names the event an-2\./);
  });
});
