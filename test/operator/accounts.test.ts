import assert from 'node:assert/strict';
import { userInfo } from 'node:os';
import { RedisUnavailable } from '../../src/redis/connection/unavailable.js';
import { findAccessToken } from '../../src/redis/records/accessTokens.js';
import { createAccount, setScopes, setStopped, settleAccounts } from '../../src/redis/records/accounts.js';
import { getEndpoint } from '../../src/redis/records/endpoint.js';
import { setNoticesUrl } from '../../src/redis/records/notices.js';
import { getRegistration } from '../../src/redis/records/registrations.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { mintToken } from '../api/credentials.js';
import { keysMatching } from '../keysMatching.js';
import { dbWith, forSuite } from '../servers.js';
import { openCli, owe, registeredClient } from './cli.js';

describe('operator: account', () => {
  const cli = forSuite(() => openCli());
  const neither = { broken: assert.fail, away: assert.fail };

  it('create has the default scope push_notifications; --scope may be repeated; a second account of a name is said', async () => {
    assert.deepEqual((await cli.json('account', 'create', '--name', 'A')).scopes, ['push_notifications']);
    const platform = await cli.json('account', 'create', '--name', 'P', '--scope', 'enrichments');
    assert.deepEqual(platform.scopes, ['enrichments']);
    const scopes = ['--scope', 'push_notifications signing_secrets', '--scope', 'push_notifications'];
    const second = await cli.run(['account', 'create', '--name', 'P', ...scopes, '--json']);
    assert.deepEqual(JSON.parse(second.stdout).scopes, ['push_notifications', 'signing_secrets']);
    assert.match(second.stderr, new RegExp(`of this name was there before: ${platform.account_id}`));
  });

  it('show finds an account by its id, its client id and its clients', async () => {
    const { client_secret: _, ...made } = await cli.json('account', 'create', '--name', 'Shown');
    await cli.json('client', 'create', '--account', made.account_id, '--name', 'x', '--token', 'OF-SHOWN');
    for (const named of [made.account_id, made.client_id, 'OF-SHOWN'])
      assert.deepEqual(await cli.json('account', 'show', named), {
        ...made,
        disabled: false,
        paused: false,
        clients: 1,
      });
    assert.match(await cli.refused('account', 'show', 'x'), /no account and no client x/);
  });

  it('create leaves no account that list does not show, wherever it is cut off', async () => {
    for (const cut of ['hsetnx', 'call', 'sadd']) {
      const gone = () => Promise.reject(new Error('cut off'));
      await assert.rejects(createAccount(dbWith(cli.db, { [cut]: gone }), { name: cut }), /cut off/);
    }
    const made = await keysMatching(cli.db, cli.db.global.account('*'));
    assert.equal((await cli.json('account', 'list')).length, made.length);
  });

  it('set ID --scope S ends every token if a scope is removed, otherwise none; an unknown scope changes nothing', async () => {
    const made = await cli.json('account', 'create', '--name', 'S');
    const token = String(await mintToken(cli.db, made, ['push_notifications']));
    const scopes = ['--scope', 'push_notifications', '--scope', 'signing_secrets'];
    assert.deepEqual(await cli.json('account', 'set', made.account_id, ...scopes), {
      account_id: made.account_id,
      previous_scopes: ['push_notifications'],
      scopes: ['push_notifications', 'signing_secrets'],
      tokens_ended: false,
    });
    assert.equal((await cli.run(['account', 'set', made.account_id, '--scope', 'push'])).status, 2);
    assert.ok(await findAccessToken(cli.db, token));
    const fewer = await cli.json('account', 'set', made.account_id, '--scope', 'push_notifications');
    assert.equal(fewer.tokens_ended, true);
    assert.equal(await findAccessToken(cli.db, token), undefined);
  });

  it('rotate-secret ID keeps the old one valid for 24 h; with --now it ends', async () => {
    const made = await cli.json('account', 'create', '--name', 'R');
    const tomorrow = { ...cli.db, clockOffsetMs: () => 24 * 3_600_000 + 1000 };
    const taken = async ({ client_secret } = made, db = cli.db) =>
      (await mintToken(db, { ...made, client_secret })) !== undefined;
    const second = await cli.json('account', 'rotate-secret', made.account_id);
    assert.deepEqual([await taken(), await taken(made, tomorrow)], [true, false]);
    const third = await cli.json('account', 'rotate-secret', made.account_id, '--now');
    assert.deepEqual([await taken(), await taken(second), await taken(third)], [false, false, true]);
  });

  it('disable ID and enable ID are recorded: who, when, what, before and after', async () => {
    const begun = Date.now() - 1000;
    const made = await cli.json('account', 'create', '--name', 'D');
    const { account_id, client_id, client_secret } = made;
    assert.equal((await cli.json('account', 'disable', account_id)).disabled, true);
    assert.equal(await mintToken(cli.db, made), undefined);
    assert.equal((await cli.json('account', 'enable', account_id, '--as', 'Ada')).disabled, false);
    const since = new Date(begun).toISOString();
    const audit = await cli.json('audit', '--since', since, '--of', account_id);
    const login = userInfo().username;
    const created = { name: 'D', client_id, scopes: ['push_notifications'] };
    const changes = audit.map((one: Record<string, unknown>) => [one.who, one.what, one.before, one.after]);
    assert.deepEqual(changes, [
      [login, 'account create', null, created],
      [login, 'account disable', { disabled: false }, { disabled: true }],
      [`Ada (${login})`, 'account enable', { disabled: true }, { disabled: false }],
    ]);
    assert.ok(audit.every(({ at }: { at: string }) => Date.parse(at) >= begun));
    assert.equal(JSON.stringify(audit).includes(client_secret), false);
    const { stdout } = await cli.run(['audit', '--of', account_id]);
    assert.match(stdout, / account disable +acc_\S+ +disabled=false +disabled=true/);
  });

  for (const disabled of [true, false])
    it(`holds the clients by the last of two operators, who ${disabled ? 'disables' : 'enables'} it while another does the opposite`, async () => {
      const { account_id } = await cli.json('account', 'create', '--name', 'H');
      const site = await registeredClient(cli, account_id, `HELD-${disabled}`, 'http://127.0.0.1:4999/hook');
      await setStopped(cli.db, account_id, 'disabled', disabled);
      const redis = Object.create(cli.db.redis);
      redis.call = async (...args: [string, string[]]) => {
        // The first has changed the account, and is about to hold the client.
        if (args[1]?.[0]?.startsWith('stopEndpoint') && delete redis.call)
          await setStopped(cli.db, account_id, 'disabled', disabled);
        return await cli.db.redis.call(...args);
      };
      await setStopped({ ...cli.db, redis }, account_id, 'disabled', !disabled);
      assert.equal((await getEndpoint(cli.db, site)).held, disabled);
    });

  it('is ended by the sweep, a minute later, where a change of it was cut off before its clients followed', async () => {
    const { account_id } = await cli.json('account', 'create', '--name', 'C', '--scope', 'enrichments');
    const site = await registeredClient(cli, account_id, 'CUT-OFF', 'http://127.0.0.1:4999/hook');
    await setNoticesUrl(cli.db, createSecretBox(undefined), account_id, 'http://127.0.0.1:4999/notices');
    const call = () => Promise.reject(new Error('cut off'));
    const cut = async (change: typeof setStopped | typeof setScopes, ...args: unknown[]) => {
      const db = dbWith(cli.db, {
        call: (...given: [string, string[]]) =>
          /stopEndpoint|cancelOwed/.test(given[1]?.[0] ?? '') ? call() : cli.db.redis.call(...given),
      });
      await assert.rejects((change as CallableFunction)(db, account_id, ...args), /cut off/);
    };
    const settle = (afterMs: number) => settleAccounts({ ...cli.db, clockOffsetMs: () => afterMs }, neither);
    const stands = async () => [
      (await getEndpoint(cli.db, site)).held,
      (await getRegistration(cli.db, 'notices:platform')) !== undefined,
    ];
    await cut(setStopped, 'disabled', true);
    await cut(setScopes, ['push_notifications']);
    await settle(30_000);
    assert.deepEqual(await stands(), [false, true], 'it may be under way');
    await settle(61_000);
    assert.deepEqual(await stands(), [true, false]);
    assert.equal(await cli.db.redis.zcard(cli.db.global.changedAccounts), 0);
  });

  it('is settled by the sweep although a client of another account is broken, as are the others of that account; the broken one is tried again', async () => {
    const { redis, global } = cli.db;
    const [broken, sound, meanwhile] = await Promise.all(
      ['BROKEN', 'SOUND', 'MEANWHILE'].map(async (name) => {
        const { account_id: id } = await cli.json('account', 'create', '--name', name);
        const site = await registeredClient(cli, id, `OF-${name}`, 'http://127.0.0.1:4999/hook');
        return { id, site };
      }),
    );
    assert.ok(broken && sound && meanwhile);
    await registeredClient(cli, broken.id, 'IS-BROKEN', 'http://127.0.0.1:4999/hook');
    const { client } = cli.db.client('IS-BROKEN');
    await redis.rename(client, `${client}-aside`);
    await redis.set(client, 'of another type');
    await assert.rejects(setStopped(cli.db, broken.id, 'disabled', true), /WRONGTYPE/);
    assert.equal((await getEndpoint(cli.db, broken.site)).held, true, 'it is held');
    for (const { id } of [sound, meanwhile]) {
      await redis.hset(global.account(id), 'disabled', '1');
      await redis.zadd(global.changedAccounts, Date.now(), id);
    }
    const call = async (...args: [string, string[]]) => {
      if (args[1].includes(cli.db.client(meanwhile.site).base))
        await redis.zadd(global.changedAccounts, 1, meanwhile.id);
      return await redis.call(...args);
    };
    const told: string[] = [];
    const before = Number(await redis.zscore(global.changedAccounts, broken.id));
    const noting = { ...neither, broken: (id: string) => void told.push(id) };
    await settleAccounts({ ...dbWith(cli.db, { call }), clockOffsetMs: () => 61_000 }, noting);
    assert.deepEqual(told, [broken.id]);
    for (const { site } of [sound, meanwhile]) assert.equal((await getEndpoint(cli.db, site)).held, true);
    assert.deepEqual(await redis.zrange(global.changedAccounts, 0, '-1'), [meanwhile.id, broken.id]);
    assert.ok(Number(await redis.zscore(global.changedAccounts, broken.id)) > before + 60_000);
    await redis.rename(`${client}-aside`, client);
    await settleAccounts({ ...cli.db, clockOffsetMs: () => 200_000 }, neither);
    assert.equal(await redis.zcard(global.changedAccounts), 0);
  });

  it('is settled by the sweep although the part of Redis with a client of another account is away', async () => {
    const [away, there] = await Promise.all(
      ['AWAY', 'THERE'].map(async (name) => {
        const { account_id: id } = await cli.json('account', 'create', '--name', name);
        const site = await registeredClient(cli, id, `IS-${name}`, 'http://127.0.0.1:4999/hook');
        await cli.db.redis.hset(cli.db.global.account(id), 'disabled', '1');
        return { id, site };
      }),
    );
    assert.ok(away && there);
    await cli.db.redis.zadd(cli.db.global.changedAccounts, 1, away.id, 2, there.id);
    const call = (...args: [string, string[]]) =>
      args[1].includes(cli.db.client(away.site).base)
        ? Promise.reject(new RedisUnavailable('away'))
        : cli.db.redis.call(...args);
    const told: unknown[] = [];
    await settleAccounts(dbWith(cli.db, { call }), {
      ...neither,
      away: (err) => void told.push(String(err)),
    });
    assert.deepEqual(told, ['RedisUnavailable: away']);
    assert.equal((await getEndpoint(cli.db, there.site)).held, true);
    assert.deepEqual(await cli.db.redis.zrange(cli.db.global.changedAccounts, 0, '-1'), [away.id]);
    await settleAccounts(cli.db, neither);
  });

  it('enable ID says once that no catch-up could be woken, however many clients are owed something', async () => {
    const { account_id } = await cli.json('account', 'create', '--name', 'E');
    for (const token of ['E1', 'E2', 'E3']) {
      await registeredClient(cli, account_id, token, 'http://127.0.0.1:4999/hook');
      await owe(cli, token);
    }
    const env = { TEMPORAL_ADDRESS: '127.0.0.1:1' };
    const { stdout, stderr } = await cli.run(['account', 'enable', account_id], { env });
    assert.match(stdout, /is enabled; clients: 3\./);
    assert.equal(stderr.match(/could not be woken/g)?.length, 1);
  });
});
