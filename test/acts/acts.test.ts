/** The table of acts: their doors, who may carry them out, and where their effects are written. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { z } from 'zod';
import { pauseAccount, resumeAccount, setScopes } from '../../src/acts/accounts.js';
import type { Act, Actor } from '../../src/acts/act.js';
import { setBounds } from '../../src/acts/clients.js';
import { sendTest } from '../../src/acts/receiverChecks.js';
import { change, reset } from '../../src/acts/registrations.js';
import { rotate } from '../../src/acts/secrets.js';
import { replay } from '../../src/acts/sendAgain.js';
import { actorOf } from '../../src/api/actor.js';
import { calls } from '../../src/api/calls.js';
import { noticesTest, siteActions } from '../../src/api/console/actions.js';
import type { ApiDeps } from '../../src/api/deps.js';
import { operatorOf } from '../../src/desk/calls.js';
import type { ApiContext } from '../../src/http/context.js';
import { accountLimits } from '../../src/http/limits.js';
import { pickerOf } from '../../src/http/picker.js';
import { nameOf } from '../../src/operator/operation.js';
import { operations } from '../../src/operator/operations.js';
import { findAccessToken } from '../../src/redis/records/accessTokens.js';
import { type Account, getAccount } from '../../src/redis/records/accounts.js';
import { listChanges } from '../../src/redis/records/audit.js';
import { type Client, getClient } from '../../src/redis/records/clients.js';
import { removeNoticesUrl } from '../../src/redis/records/deletion.js';
import { setNoticesUrl, unclaimedNotices } from '../../src/redis/records/notices.js';
import { isAllowed, type Role, roles } from '../../src/redis/records/operatorAccess.js';
import { changeRegistration } from '../../src/redis/records/registrations.js';
import { setRequestHeaders } from '../../src/redis/records/secrets.js';
import { startReceiver, until } from '../receiver.js';
import { type Customer, newCustomer, newToken, useShared } from '../service.js';

const source = join(import.meta.dirname, '../../src');
const filesIn = (folder: string) =>
  readdirSync(join(source, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(source, folder, name));

const isAct = (one: unknown): one is Act<never, unknown> => typeof one === 'function' && 'may' in one;
const files = await Promise.all(filesIn('acts').map((file) => import(file) as Promise<object>));
const acts = files.flatMap((file) => Object.values(file).filter(isAct));

/** The doors of each act. The desk's forms are made from the operations. */
function doorsOf(act: Act<never, unknown>): string[] {
  const ofApi = calls.filter((call) => 'act' in call && call.act === act);
  const ofOperators = operations.filter((operation) => operation.acts?.includes(act));
  const forms = Object.entries({ ...siteActions, 'notices/test': noticesTest });
  return [
    ...ofApi.map(({ method, path }) => `${method.toUpperCase()} ${path}`),
    ...ofOperators.map((operation) => `operator ${nameOf(operation)}`),
    ...forms.filter(([, { call }]) => call.act === act).map(([path]) => `form ${path}`),
  ];
}

describe('acts', () => {
  it('are found', () => assert.ok(acts.length >= 40, `${acts.length}`));

  const isOperators = (door: string) => door.startsWith('operator ');
  for (const act of acts)
    it(`${act.title} has a door for whoever may, and no other: ${doorsOf(act).join(', ')}`, () => {
      const doors = doorsOf(act);
      assert.equal(doors.some(isOperators), act.may.operator !== undefined);
      assert.equal(!doors.every(isOperators), act.may.publisher !== undefined);
    });

  it('have their effects written in no second file: no door imports what an act changes with', () => {
    const aliases = /(\w+) as (\w+)/g;
    const changes = new Set(
      filesIn('acts').flatMap((file) => {
        const text = readFileSync(file, 'utf8');
        const own = new Map([...text.matchAll(aliases)].map(([, name = '', as = '']) => [as, name]));
        const names = [...text.matchAll(/\((?:db|own)\) =>\s*(\w+)\(/g)].map(([, name = '']) => name);
        return names.map((name) => own.get(name) ?? name);
      }),
    );
    assert.ok(changes.size > 10, [...changes].join());
    const twice = ['api', 'operator', 'desk', 'web'].flatMap(filesIn).flatMap((file) => {
      const imported = [...readFileSync(file, 'utf8').matchAll(/import \{([^}]*)\} from '[^']*redis\//g)];
      const names = imported.flatMap(([, list = '']) => list.split(',').map((one) => one.trim()));
      return names.filter((name) => changes.has(name)).map((name) => `${file}: ${name}`);
    });
    assert.deepEqual(twice, []);
  });

  it('are all that changes anything: no other file of a door writes durably, or into the audit', () => {
    const writes = /\b(durably|recordChange|recordCall|auditCall|admitCall)\(/;
    const writers = ['api', 'operator', 'desk', 'web']
      .flatMap(filesIn)
      .filter((file) => writes.test(readFileSync(file, 'utf8')))
      .map((file) => relative(source, file));
    assert.deepEqual(writers.sort(), [
      // What every act of a publisher, or of an operator, changes and records with.
      'api/actor.ts',
      // An account's own credentials make and end tokens.
      'api/calls/tokens.ts',
      // A place in the feed is on the disk before it is answered.
      'api/calls/updates.ts',
      // A door records who comes in.
      'api/console/mount.ts',
      'api/steps/auditCall.ts',
      'desk/people.ts',
      'operator/operation.ts',
    ]);
  });
});

describe('an act', () => {
  const h = useShared();

  async function publisher(customer: Customer, token = customer.token): Promise<Actor> {
    const found = await findAccessToken(h.db, token);
    const client = await getClient(h.db, customer.client_token);
    assert.ok(found && client);
    const req = { headers: {}, socket: { remoteAddress: '127.0.0.1' } };
    const ctx = { req, state: { requestId: 'acts-test' }, querystring: '' } as unknown as ApiContext;
    const limits = accountLimits(h.db, 100);
    return actorOf({ ...h.apiDeps, ...limits } as ApiDeps, { ctx, token: found, client });
  }
  const operator = (role: Role): Actor =>
    operatorOf(h.apiDeps, { role, who: 'Ada (test)', warnings: [] }, 'a test');

  it('is carried out by nobody who may not, whichever door leads there', async () => {
    const owner = await newCustomer(h, ['push_notifications', 'signing_secrets']);
    const lesser = await newToken(h, { ...owner, scopes: ['push_notifications'] });
    const stranger = await newCustomer(h);
    const platform = await newCustomer(h, ['enrichments']);
    const client = await getClient(h.db, owner.client_token);
    assert.ok(client);
    type May = Act<never, unknown>['may'];
    const table: [string, Actor, (may: May) => boolean][] = [
      ['the owner', await publisher(owner), ({ publisher: by }) => by !== undefined && by !== 'platform'],
      [
        'the owner with a token for general use',
        await publisher(owner, lesser),
        ({ publisher: by }) => by === 'any' || by === 'orPlatform',
      ],
      ['another account', await publisher(stranger), () => false],
      [
        'the platform',
        await publisher(platform),
        ({ publisher: by }) => by === 'orPlatform' || by === 'platform',
      ],
      ...roles.map((role): [string, Actor, (may: May) => boolean] => [
        `an operator who may ${role}`,
        operator(role),
        ({ operator: needed }) => needed !== undefined && isAllowed(role, needed),
      ]),
    ];
    const refused = ['insufficient_scope', 'insufficient_role', 'unknown_client'];
    for (const [who, actor, may] of table)
      for (const act of acts) {
        const told = `${act.title} by ${who}`;
        if (may(act.may)) await actor.permit(act.may, client);
        else
          await assert.rejects(
            act(actor, { client } as never),
            ({ code }: { code: string }) => refused.includes(code),
            told,
          );
      }
  });

  it('that may send more than the assets it has looked at does not say that there is nothing', async () => {
    const { client_token: clientToken } = await newCustomer(h);
    const client = await getClient(h.db, clientToken);
    assert.ok(client);
    const begins = (Date.now() - 60_000) * 1000;
    const unsent = Array.from({ length: 10_001 }, (_, i) => [begins + i, `unsent-${i}`]);
    await h.db.redis.zadd(h.db.client(clientToken).feed, ...unsent.flat());
    const found = await replay(operator('support'), { client, since: Date.now() - 3_600_000 });
    assert.deepEqual([found.count, found.at_least, found.none_because], [0, true, undefined]);
  });

  it('that is to stop another replay than the one that runs names that one', async () => {
    const { client_token: clientToken } = await newCustomer(h);
    const client = await getClient(h.db, clientToken);
    assert.ok(client);
    const since = Date.now() - 3_600_000;
    // Nothing moves it: its catch-up does not run.
    const running = {
      replay_since: since,
      replay_until: since,
      replay_at: 0,
      replay_end: 1,
      replay_count: 0,
    };
    await h.db.redis.hset(h.db.client(clientToken).endpoint, running);
    const stop = (from: number) => replay(operator('support'), { client, since: from, stop: true });
    const named = new RegExp(`but one since ${new Date(since).toISOString()}: give that time`);
    await assert.rejects(stop(since + 1), named);
    await stop(since);
    assert.equal((await h.endpoint(clientToken)).replay?.runs, false);
  });

  it('changes nothing where its process stood still: another call may have made another change by then', async () => {
    const customer = await newCustomer(h);
    const client = await getClient(h.db, customer.client_token);
    assert.ok(client);
    const set = (quiet_seconds: number, stoodMs = 0) => {
      const real = Date.now;
      const actor: Actor = {
        ...operator('admin'),
        admit: async () => {
          Date.now = () => real() + stoodMs;
        },
      };
      return setBounds(actor, { client, quiet_seconds }).finally(() => {
        Date.now = real;
      });
    };
    await set(5);
    await assert.rejects(set(7, 121_000), { code: 'temporarily_unavailable' });
    assert.equal((await getClient(h.db, customer.client_token))?.quietSeconds, 5);
  });

  it('sends no header to a URL that another operator has changed meanwhile', async () => {
    const [own, other] = [await startReceiver(), await startReceiver()];
    const customer = await newCustomer(h);
    const { client_token: token } = customer;
    await customer.register(own.url);
    await setRequestHeaders(h.db, h.apiDeps.secretBox, token, { 'x-gateway-key': 'open sesame' });
    await changeRegistration(h.db, token, other.url, 'operator');
    const client = await getClient(h.db, token);
    assert.ok(client);
    const admit = async () => void (await changeRegistration(h.db, token, own.url, 'operator'));
    await sendTest({ ...operator('support'), admit }, { client });
    await sendTest(operator('support'), { client });
    const keys = [other, own].map(({ received }) => received.map(({ headers }) => headers['x-gateway-key']));
    assert.deepEqual(keys, [[undefined], ['open sesame']]);
  });

  it('that pauses the account of the platform’s notices needs the role that these need', async () => {
    const { account_id: platform } = await newCustomer(h, ['enrichments']);
    await setNoticesUrl(h.db, h.apiDeps.secretBox, platform, 'http://127.0.0.1:9/notices');
    const account = (await getAccount(h.db, platform)) as Account;
    await assert.rejects(pauseAccount(operator('support'), { account }), { code: 'insufficient_role' });
    await pauseAccount(operator('admin'), { account });
    await resumeAccount(operator('admin'), { account });
    // There is one of an installation.
    await removeNoticesUrl(h.db, 'notices:platform');
  });

  it('rotates a secret and claims the notice of it at once, also by an operator', async () => {
    const customer = await newCustomer(h);
    const client = await getClient(h.db, customer.client_token);
    assert.ok(client);
    await setNoticesUrl(h.db, h.apiDeps.secretBox, customer.account_id, 'http://127.0.0.1:9/notices');
    const actor = operator('admin');
    await rotate(actor, { client });
    await rotate(actor, { client });
    assert.deepEqual(await unclaimedNotices(h.db, customer.client_token), []);
  });

  it('tells a URL for notices that it gets no more, and counts the notices that go with it, also if an operator ends it', async () => {
    const receiver = await startReceiver();
    receiver.answer = () => 500;
    const [reason, admin] = [/"reason":"the URL for notices was (\w+)/, operator('admin')];
    const ends: [string, (client: Client, account: Account) => Promise<object>][] = [
      ['removed', (client) => reset(admin, { client })],
      ['replaced', (client) => change(admin, { client, url: `${receiver.url}/other` })],
      ['removed', (_, account) => setScopes(admin, { account, scope: ['enrichments'] })],
    ];
    for (const [how, end] of ends) {
      const customer = await newCustomer(h);
      const { db, secretBox } = h.apiDeps;
      await setNoticesUrl(db, secretBox, customer.account_id, receiver.url);
      const site = await getClient(db, customer.client_token);
      const client = await getClient(db, `notices:${customer.account_id}`);
      const account = await getAccount(db, customer.account_id);
      assert.ok(site && client && account);
      await rotate(admin, { client: site });
      const changes = await listChanges(db, '0', '+', customer.account_id);
      await end(client, account);
      const said = await until('it was told', () =>
        receiver.received.find(({ body }) => reason.test(body) && body.includes(customer.account_id)),
      );
      assert.equal(reason.exec(said.body)?.[1], how);
      const [entry] = (await listChanges(db, '0', '+', customer.account_id)).slice(changes.length);
      assert.equal(entry?.cancels, entry?.what === 'account set' ? 1 : 0);
    }
  });

  it('says that tokens ended by the scopes that it replaced, whoever has changed them since they were read', async () => {
    const { account_id } = await newCustomer(h);
    const account = (await getAccount(h.db, account_id)) as Account;
    const set = (scope: string[]) => setScopes(operator('admin'), { account, scope });
    const both = ['push_notifications', 'signing_secrets'];
    assert.equal((await set(both)).tokens_ended, false);
    const { previous_scopes, tokens_ended } = await set(['push_notifications']);
    assert.deepEqual([previous_scopes, tokens_ended], [both, true]);
  });

  it('shows what the schema of its door names, and nothing beside', () => {
    const inner = z.object({ id: z.string() });
    const pick = pickerOf(
      z.object({ list: z.array(inner), one: z.union([inner, z.object({ name: z.string() })]).nullable() }),
    );
    const secret = 'only for operators';
    assert.deepEqual(pick({ secret, list: [{ id: 'a', secret }], one: { name: 'b', secret } }), {
      list: [{ id: 'a' }],
      one: { name: 'b' },
    });
    assert.deepEqual(pick({ one: null }), { one: null });
    assert.throws(() => pickerOf(z.map(z.string(), z.string())));
  });
});
