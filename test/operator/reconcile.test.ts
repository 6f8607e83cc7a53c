import assert from 'node:assert/strict';
import { notificationId } from '../../src/ids.js';
import { claimAgain } from '../../src/redis/owed/claim.js';
import { announceClaims } from '../../src/redis/owed/owedClients.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { type Cli, openCli } from './cli.js';

describe('operator: reconcile', () => {
  let cli: Cli;
  const clientToken = 'RECONCILED';
  const id = notificationId({ clientToken, platformId: 'vid-1', eventId: 'an-1', segments: ['iab:17'] });

  before(async () => {
    cli = await openCli();
    const { account_id: accountId } = await createAccount(cli.db, { name: 'Acme' });
    await createClient(cli.db, { accountId, name: 'Site', clientToken });
    await announceClaims(cli.db, [clientToken]);
    await claimAgain(cli.db, {
      ...{ clientToken, platformId: 'vid-1', eventId: 'an-1', segments: ['iab:17'], notificationId: id },
      ...{ priority: 'live', claim: 1, acceptedAt: Date.now() },
    });
  });
  after(() => cli.close());

  it('ends with exit status 0 if every accepted event is accounted for', async () => {
    const found = await cli.json('reconcile');
    assert.deepEqual(found.events, {
      ...{ delivered: 0, superseded: 0, not_needed: 0, failed: 0, cancelled: 0 },
      ...{ owed: 1, in_progress: 0, aged_out: 0, unaccounted: 0 },
    });
    assert.deepEqual(found.unaccounted, []);
    assert.equal(found.looked_at.clients, 1);
    const later = await cli.json('reconcile', '--client', clientToken, '--since', '2099-01-01');
    assert.equal(later.events.owed, 0);
    const ran = await cli.run(['reconcile']);
    assert.match(ran.stdout, /^Every accepted event is accounted for: 1\./);
    assert.match(ran.stdout, /\nRead 1 notification of 1 client and \d+ workflows/);
  });

  it('ends with exit status 1 if one is not, and shows client token, asset, notification id and problem', async () => {
    await cli.db.redis.hdel(cli.db.client(clientToken).owed, 'vid-1');
    const ran = await cli.run(['reconcile', '--json']);
    assert.deepEqual([ran.status, ran.stderr], [1, 'Unaccounted for: 1.\n']);
    const found = JSON.parse(ran.stdout);
    assert.equal(found.events.unaccounted, 1);
    assert.deepEqual(found.unaccounted, [
      {
        ...{ client_token: clientToken, platform_id: 'vid-1', notification_id: id, workflow_id: null },
        ...{
          problem: 'waiting_but_not_owed',
          because: 'its record waits, but its asset is not owed by this notification',
        },
      },
    ]);
  });

  it('refuses an unknown client', async () => {
    const ran = await cli.run(['reconcile', '--client', 'NOBODY']);
    assert.deepEqual([ran.status, ran.stdout], [1, '']);
  });
});
