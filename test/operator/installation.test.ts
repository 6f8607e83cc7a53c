/** Processes and commands of one installation, of which some have other settings than the others. */
import assert from 'node:assert/strict';
import type { Db } from '../../src/redis/connection/db.js';
import { keysMatching } from '../keysMatching.js';
import { refusalOf, startService } from '../program.js';
import { newPublisher } from '../publisher.js';
import { forSuite, secretsKey, uniquePrefix } from '../servers.js';
import { type Cli, openCli } from './cli.js';

const prefix = uniquePrefix();
const encrypted = { KEY_PREFIX: prefix, TASK_QUEUE: `${prefix}queue` };

describe('An installation with SECRETS_KEY', () => {
  const service = forSuite(() => startService(encrypted));
  const cli = forSuite(() => openCli(encrypted));
  let client: string;
  let db: Db;
  before(async () => {
    const publisher = await newPublisher(service);
    client = await publisher.newClient();
    db = publisher.db;
    await publisher.call('GET', 'push_notifications/signing_secret', { client_token: client });
  });
  after(() => service.stop());

  const starts = (env: Record<string, string>) => refusalOf({ ...encrypted, ...env });
  const sealed = async () =>
    Promise.all(
      (await keysMatching(db, `${prefix}*:signing-secrets`)).map((key) => db.redis.hvals(key)),
    ).then((values) => values.flat());

  const others: Record<string, [SECRETS_KEY: string, says: RegExp]> = {
    'no key': ['', /SECRETS_KEY lacks the key "k1" of this installation/],
    'another key of the same id': [
      `k1:${Buffer.alloc(32, 2).toString('base64')}`,
      /SECRETS_KEY has another key "k1" than this installation/,
    ],
  };
  for (const [what, [SECRETS_KEY, says]] of Object.entries(others)) {
    it(`starts no process and refuses every command that reads or writes a secret with ${what}; status and doctor say it`, async () => {
      const started = starts({ SECRETS_KEY });
      const before = await sealed();
      const account = await cli.json('client', 'list').then(([one]) => one.account_id);
      const commands = [
        ['secrets', 'rotate', client, '--now'],
        ['client', 'create', '--account', account, '--name', 'Site'],
        ['registration', 'test', client, '--url', 'http://127.0.0.1:9/'],
        ['registration', 'check', client, '--url', 'http://127.0.0.1:9/'],
        ...(SECRETS_KEY === '' ? [] : [['secrets', 'reencrypt']]),
      ];
      for (const command of commands) {
        const ran = await cli.run(command, { env: { SECRETS_KEY } });
        assert.deepEqual([ran.status, ran.stdout], [1, ''], command.join(' '));
        assert.match(ran.stderr, says);
      }
      assert.deepEqual(await sealed(), before);
      const [status, doctor] = [
        await cli.run(['status'], { env: { SECRETS_KEY } }),
        await cli.run(['doctor'], { env: { SECRETS_KEY } }),
      ];
      assert.equal(status.status, 0);
      assert.match(status.stderr, says);
      assert.equal(doctor.status, 1);
      assert.match(await started, says);
      assert.doesNotMatch(await started, /\n +at /, 'a stack');
      assert.match(doctor.stdout, new RegExp(`^fail +settings SECRETS_KEY +${says.source}`, 'm'));
    });
  }

  it('has plain values counted by doctor and mended by secrets reencrypt', async () => {
    const { signingSecrets } = db.client(client);
    const kept = await db.redis.hget(signingSecrets, 'current');
    await db.redis.hset(signingSecrets, 'current', 'plain:whsec_AAAA', 'header:x-key', 'plain:value');
    const found = async () => {
      const { stdout } = await cli.run(['doctor']);
      return /^(\w+) +redis signing secrets +(.*)$/m.exec(stdout)?.slice(1).join(' ');
    };
    assert.equal(await found(), 'warn 2 of 2 secrets are in plain text.');
    assert.equal((await cli.json('secrets', 'reencrypt')).reencrypted, 2);
    assert.equal(await found(), 'ok All of 2 secrets can be decrypted.');
    assert.ok((await sealed()).every((value) => value.startsWith('k1:')));
    await db.redis.hset(signingSecrets, 'current', String(kept));
    await db.redis.hdel(signingSecrets, 'header:x-key');
  });

  it('takes a new key, which secrets reencrypt makes the only one, and gives up a key that is lost', async () => {
    const [k2, k3] = [2, 3].map((n) => `k${n}:${Buffer.alloc(32, n).toString('base64')}`);
    const both = `${k2},k1:${secretsKey}`;
    const rotate = (SECRETS_KEY = `k1:${secretsKey}`) =>
      cli.run(['secrets', 'rotate', client], { env: { SECRETS_KEY } });
    assert.equal(await starts({ SECRETS_KEY: both }), 'it started');
    assert.match((await rotate()).stderr, /lacks the key "k2"/);
    assert.match((await rotate(k2)).stderr, /lacks the key "k1"/);
    await cli.run(['secrets', 'reencrypt'], { env: { SECRETS_KEY: both } });
    assert.equal((await rotate(k2)).status, 0);
    const lost = await cli.run(['secrets', 'reencrypt', '--lost', 'k2'], { env: { SECRETS_KEY: `${k3}` } });
    assert.match(lost.stderr, /SECRETS_KEY has no key for the secrets of: /);
    assert.equal((await rotate(k3)).status, 0);
  });
});

describe('An installation without SECRETS_KEY', () => {
  const plain = { ...encrypted, KEY_PREFIX: uniquePrefix(), SECRETS_KEY: '' };
  const service = forSuite(() => startService(plain));
  const cli: Cli = forSuite(() => openCli(plain));
  after(() => service.stop());

  it('has settings that differ named by the log of the process that starts, and by doctor', async () => {
    const others = {
      OWED_RETENTION_DAYS: '20',
      RETRY_SCHEDULE_SECONDS: '5',
      SOURCE_ADDRESSES: '198.51.100.7',
    };
    const second = await startService({ ...plain, ...others });
    const warned = second.said().match(/(?<="setting":")\w+/g);
    assert.deepEqual(warned, ['RETRY_SCHEDULE_SECONDS', 'OWED_RETENTION_DAYS', 'SOURCE_ADDRESSES']);
    await second.stop();
    const doctor = await cli.run(['doctor']);
    assert.match(
      doctor.stdout,
      /^warn +settings alike .*RETRY_SCHEDULE_SECONDS is [\d,]+ here, 5 there; OWED_RETENTION_DAYS is 30 here, 20 there; SOURCE_ADDRESSES is none here, 198\.51\.100\.7 there/m,
    );
  });

  it('refuses commands with a key, which its processes could not read, until one starts with it: then what runs without it refuses', async () => {
    const { account, db, newClient } = await newPublisher(service);
    const [client, other] = [await newClient(), await newClient()];
    const env = { SECRETS_KEY: `k1:${secretsKey}` };
    const rotate = ['secrets', 'rotate', client];
    assert.match((await cli.run(rotate, { env })).stderr, /No process has started with SECRETS_KEY/);
    await (await startService({ ...plain, ...env })).stop();
    assert.equal((await cli.run(rotate, { env })).status, 0);
    assert.match((await cli.run(rotate)).stderr, /lacks the key "k1"/);
    const of = (client_token: string) => `client_token=${client_token}`;
    const url = encodeURIComponent('http://127.0.0.1:9/');
    const asked: [string, string, unknown?][] = [
      ['POST', `/register_push_notifications?${of(other)}&url=${url}`],
      ['GET', `/push_notifications/signing_secret?${of(other)}`],
      ['POST', `/push_notifications/signing_secret?${of(client)}`],
      ['PUT', `/push_notifications/headers?${of(client)}`, { headers: { 'X-Key': 'value' } }],
      ['POST', `/push_notifications/test?${of(client)}&url=${url}`],
      ['PUT', '/notices', { url: 'http://127.0.0.1:9/' }],
    ];
    for (const [method, path, body] of asked) {
      const { status, body: said } = await account.call(method, path, body);
      assert.equal(status, 503, `${method} ${path}: ${JSON.stringify(said)}`);
    }
    const sealed = await Promise.all(
      (await keysMatching(db, `${plain.KEY_PREFIX}*:signing-secrets`)).map((key) => db.redis.hvals(key)),
    );
    assert.ok(sealed.flat().every((one) => one.startsWith('k1:')));
  });
});
