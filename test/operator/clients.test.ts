import assert from 'node:assert/strict';
import { setNoticesUrl } from '../../src/redis/records/notices.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { startReceiver } from '../receiver.js';
import { forSuite } from '../servers.js';
import { openCli, owe, registeredClient } from './cli.js';

const url = 'http://127.0.0.1:4999/hook?key=receivers-own-secret';

describe('operator: client, registration', () => {
  const cli = forSuite(() => openCli());
  let account: string;
  before(async () => {
    account = (await cli.json('account', 'create', '--name', 'Acme')).account_id;
  });

  const registered = (clientToken: string) => registeredClient(cli, account, clientToken, url);

  it('client create makes a client token where none is given, and refuses an unknown account', async () => {
    const create = ['client', 'create', '--name', 'Site', '--account'];
    assert.match((await cli.json(...create, account)).client_token, /^[A-Za-z0-9_-]{1,64}$/);
    assert.equal(await cli.refused(...create, 'acc_nobody'), 'There is no account acc_nobody.\n');
  });

  it('client create completes a client whose creation was cut off, for its account and one caller only', async () => {
    await cli.db.redis.hset(cli.db.client('CUT-OFF').client, 'account_id', account);
    const other = (await cli.json('account', 'create', '--name', 'Other')).account_id;
    const create = (owner: string) =>
      cli.run(['client', 'create', '--account', owner, '--name', 'Site', '--token', 'CUT-OFF']);
    assert.match((await create(other)).stderr, /given out before/);
    const both = await Promise.all([create(account), create(account)]);
    assert.deepEqual(both.map(({ status }) => status).sort(), [0, 1]);
    const [{ name }] = await cli.json('client', 'list', '--account', account, '--name', 'CUT-OFF');
    assert.equal(name, 'Site');
  });

  it('client list [--account ID] shows bounds, which set T sets and removes, with before and after in the audit', async () => {
    const other = (await cli.json('account', 'create', '--name', 'Other')).account_id;
    const token = 'B'.repeat(64);
    await cli.json('client', 'create', '--account', other, '--name', 'Bounded', '--token', token);
    const bounds = '--max-in-flight 3 --max-per-second 7 --quiet-seconds 60'.split(' ');
    const set = await cli.json('client', 'set', token, ...bounds);
    assert.deepEqual([set.max_in_flight, set.max_per_second, set.quiet_seconds], [3, 7, 60]);
    const listed = { ...set, state: 'not_registered', owed: 0, failed: 0, url: null };
    assert.deepEqual(await cli.json('client', 'list', '--account', other), [listed]);
    assert.deepEqual(await cli.json('client', 'show', token), set);
    const back = await cli.json('client', 'set', token, '--max-in-flight', 'default');
    const { stdout: inForce } = await cli.run(['client', 'show', token]);
    assert.match(inForce, /^max_in_flight +16 \(the default\)\nmax_per_second +7$/m);
    assert.deepEqual([back.max_in_flight, back.max_per_second, back.quiet_seconds], [null, 7, 60]);
    const { stdout } = await cli.run(['audit', '--of', token]);
    const others = 'max_per_second=7 quiet_seconds=60';
    const before = new RegExp(`B{64} +max_in_flight=3 ${others} +max_in_flight=null$`, 'm');
    assert.match(stdout, before, 'nothing is cut');
  });

  it('client list --name N finds part of a name or client token, and shows state and host, also beside broken keys', async () => {
    await registered('FOUND');
    const broken = await registered('FOUND2');
    await cli.db.redis.set(cli.db.client(broken).owed, 'no hash');
    const ran = await cli.run(['client', 'list', '--name', 'found']);
    assert.match(ran.stdout, /^FOUND +Site of FOUND +acc_\S+ +active +0 +0 +127\.0\.0\.1:4999$/m);
    assert.match(ran.stdout, /^FOUND2 .* unreadable /m);
    assert.equal(ran.stdout.trim().split('\n').length, 3);
    for (const part of ['of FOUND2', '127.0.0.1:4999'])
      assert.equal((await cli.json('client', 'list', '--name', part)).at(-1).url, url);
    await cli.db.redis.del(cli.db.client(broken).owed);
  });

  it('client delete T keeps the client token taken for good', async () => {
    const create = ['client', 'create', '--account', account, '--name', 'Gone', '--token', 'GONE'];
    await cli.json(...create);
    assert.equal((await cli.json('client', 'delete', 'GONE')).deleted, true);
    assert.match(await cli.refused(...create), /given out before/);
    assert.equal(await cli.refused('client', 'delete', 'GONE'), 'There is no client GONE.\n');
  });

  it('registration pause T and resume T; resume says that a failing endpoint is probed now', async () => {
    const token = await registered('PAUSED');
    const paused = await cli.json('registration', 'pause', token);
    assert.deepEqual([paused.previous_state, paused.state], ['active', 'paused']);
    assert.equal((await cli.json('registration', 'show', token)).state, 'paused');
    const resumed = await cli.json('registration', 'resume', token);
    assert.deepEqual([resumed.previous_state, resumed.state], ['paused', 'active']);
    await cli.db.redis.hset(cli.db.client(token).endpoint, { state: 'failing', probe_at: Date.now() });
    const { stdout } = await cli.run(['registration', 'resume', token]);
    assert.equal(stdout, `${token} is failing; owed: 0. The next event probes it.\n`);
    await owe(cli, token);
    const probed = (when: string) => `${token} is failing; owed: 1. A probe goes out ${when}.\n`;
    assert.equal((await cli.run(['registration', 'resume', token])).stdout, probed('now'));
    const env = { TEMPORAL_ADDRESS: '127.0.0.1:1' };
    const away = await cli.run(['registration', 'resume', token], { env });
    assert.equal(away.stdout, probed('later'));
    assert.match(away.stderr, /within 30 seconds, once Temporal is back\..*\(ECONNREFUSED\)/);
    await cli.json('registration', 'reset', token);
    const without = await cli.run(['registration', 'pause', token]);
    assert.equal(without.stdout, `${token} has no URL; the next one is paused.\n`);
    assert.equal(await cli.refused('registration', 'pause', 'NOBODY'), 'There is no client NOBODY.\n');
  });

  it('registration check T says all of what the receiver should do', async () => {
    const receiver = await startReceiver();
    receiver.answer = () => 500;
    const check = ['registration', 'check', await registered('CHECK'), '--url', receiver.url];
    const failed = await cli.run([...check, '--json']);
    assert.deepEqual([failed.status, failed.stderr], [1, '3 checks of 5 failed.\n']);
    const { checks } = JSON.parse(failed.stdout);
    const { stdout } = await cli.run(check);
    for (const { advice } of checks) assert.ok(stdout.includes(advice), stdout);
    const nowhere = await cli.run(['registration', 'check', 'CHECK', '--url', 'http://127.0.0.1:9/']);
    assert.doesNotMatch(nowhere.stdout, /Answer 401/, 'a refused connection refuses nothing');
  });

  it('registration change T --url U and reset T answer the former URL; the audit keeps scheme and host', async () => {
    const token = await registered('CHANGED');
    const next = 'http://127.0.0.1:4998/other';
    assert.equal((await cli.json('registration', 'change', token, '--url', next)).previous_url, url);
    assert.equal((await cli.json('registration', 'show', token)).url, next);
    const [change] = (await cli.json('audit', '--of', token)).slice(-1);
    const { former, ...before } = change.before;
    assert.deepEqual(before, { url: 'http://127.0.0.1:4999' });
    assert.match(former, /^url_[0-9a-f]{12}$/);
    assert.deepEqual(change.after, { url: new URL(next).origin });
    assert.equal(JSON.stringify(await cli.json('audit')).includes('receivers-own-secret'), false);
    assert.equal((await cli.json('registration', 'reset', token)).removed_url, next);
    for (const command of ['show', 'reset'])
      assert.equal(await cli.refused('registration', command, token), 'CHANGED has no URL.\n');
  });

  it('a name is one that a page can link to', async () => {
    for (const name of ['', ' ', '\u200b', '\u2800', '\u3164', 'a\tb', 'x'.repeat(129)])
      for (const args of [
        ['account', 'create'],
        ['client', 'create', '--account', account],
      ])
        assert.match((await cli.run([...args, '--name', name])).stderr, /A name has 1 to 128 characters/);
    assert.equal((await cli.json('account', 'create', '--name', ' Zoë 👩‍💻 ')).name, 'Zoë 👩‍💻');
  });

  it('commands about clients accept the client of notices; it is neither created nor deleted', async () => {
    const client = `notices:${account}`;
    assert.equal(await cli.refused('registration', 'show', client), `There is no client ${client}.\n`);
    await setNoticesUrl(cli.db, createSecretBox(undefined), account, url);
    assert.equal((await cli.json('registration', 'show', client)).url, url);
    assert.equal((await cli.json('registration', 'pause', client)).state, 'paused');
    assert.deepEqual(await cli.json('notification', 'list', '--client', client), []);
    for (const args of [
      ['client', 'delete', client],
      ['client', 'create', '--account', account, '--name', 'A site', '--token', 'notices:x'],
    ])
      assert.match((await cli.run(args)).stderr, /A client token is 1 to 64/);
  });
});
