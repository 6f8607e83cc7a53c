import assert from 'node:assert/strict';
import { hasPart, pageOfSites } from '../../src/acts/clients.js';
import { readClients } from '../../src/operator/situations.js';
import { ignore } from '../../src/redis/connection/unavailable.js';
import { createAccount, findAccounts } from '../../src/redis/records/accounts.js';
import { recordChange } from '../../src/redis/records/audit.js';
import { createClient } from '../../src/redis/records/clients.js';
import { countEndpoints, noteCounts } from '../../src/redis/records/counts.js';
import { deleteClient } from '../../src/redis/records/deletion.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { changeRegistration } from '../../src/redis/records/registrations.js';
import { runSweep } from '../../src/upkeep/sweep.js';
import { dbWith, forSuite } from '../servers.js';
import { startHarness } from '../service.js';

describe('Lists and status of a whole installation', () => {
  const h = forSuite(() => startHarness({}, 'api'));
  const tokens: string[] = [];
  let read: string[] = [];

  before(async () => {
    for (let i = 0; i < 20; i++) {
      const { account_id: accountId } = await createAccount(h.db, { name: `Customer ${i}` });
      const { clientToken } = await createClient(h.db, { accountId, name: `Página ${i}-${i}` });
      await h.registerUrl(clientToken, `https://host-${i}-${i}.example/hook`);
      tokens.push(clientToken);
    }
  });

  /** A store that notes whose records are read. */
  const counting = () => {
    read = [];
    const hgetall = (key: string) => {
      read.push(key);
      return h.db.redis.hgetall(key);
    };
    const call = (command: string, args: (string | number)[]) => {
      const [name, count, ...rest] = args;
      if (String(name).startsWith('readEach')) read.push(...rest.slice(0, Number(count)).map(String));
      return h.db.redis.call(command, args);
    };
    return dbWith(h.db, { hgetall, call });
  };
  const found = async (name: string) => {
    const { clients } = await pageOfSites(counting(), { name, limit: 100 });
    return clients.map(({ clientToken }) => clientToken);
  };
  const accounts = (part: string) => findAccounts(counting(), (name) => hasPart(name, part));
  const sweep = async () =>
    noteCounts(h.db, 'endpoints', await countEndpoints(h.db, { broken: ignore, notice: ignore }));

  it('read the records of what is found, by name, token and host, and no others', async () => {
    for (const part of ['página 7-7', 'PÁGINA 7-7'.normalize('NFD'), 'host-7-7.exa', tokens[7] ?? '']) {
      assert.deepEqual(await found(part), [tokens[7]], part);
      assert.ok(read.length > 0 && read.every((key) => key.includes(tokens[7] ?? '')), `${read}`);
    }
    assert.deepEqual(await found('nobody'), []);
    assert.deepEqual((await accounts('customer 1')).map(({ name }) => name).slice(0, 2), [
      'Customer 1',
      'Customer 10',
    ]);
    assert.deepEqual(read, []);
  });

  it('find a client by the host of the URL that it has now, and no deleted client', async () => {
    const [moved = '', gone = ''] = tokens.splice(0, 2);
    await changeRegistration(h.db, moved, 'https://moved.example/hook');
    await deleteClient(h.db, gone);
    assert.deepEqual(
      [await found('moved.example'), await found('host-0-0'), await found('host-1-1')],
      [[moved], [], []],
    );
    tokens.push(moved);
  });

  it('find everything where the index is of a former version, or was not written before an end; the sweep completes it', async () => {
    const { accountIndex, clientIndex } = h.db.global;
    const last = tokens.at(-2) ?? '';
    for (const index of [accountIndex, clientIndex]) await h.db.redis.del(index);
    assert.equal((await accounts('customer')).length, 20);
    assert.deepEqual(await found(last), [last]);
    await sweep();
    assert.deepEqual(await found(last), [last]);
    assert.equal(read.filter((key) => key.endsWith('client')).length, 1, `${read}`);
    await h.db.redis.hset(clientIndex, last, 'Página\nhost-of-before.example');
    await sweep();
    assert.deepEqual(await found('host-19-19'), [last]);
  });

  it('status reads the clients that are owed something or amiss, and no others: one that is paused at once', async () => {
    await sweep();
    const [paused = '', failing = ''] = tokens;
    await setPaused(h.db, paused, true);
    assert.deepEqual(
      (await readClients(counting())).clients.map(({ clientToken }) => clientToken),
      [paused],
    );
    await h.db.redis.hset(h.db.client(failing).endpoint, 'state', 'failing');
    await sweep();
    const { clients } = await readClients(counting());
    const situations = clients.map(({ clientToken, situation }) => [clientToken, situation]).sort();
    assert.deepEqual(
      situations,
      [
        [failing, 'failing'],
        [paused, 'paused'],
      ].sort(),
    );
    assert.equal(read.length, 2);
    assert.equal((await pageOfSites(counting(), { state: 'failing', limit: 100 })).clients.length, 1);
    assert.ok(
      read.every((key) => [failing, paused].some((token) => key.includes(token))),
      `${read}`,
    );
  });

  it('the sweep reads the changes of state of the sites that an operator has changed, and no others', async () => {
    const [target = ''] = tokens.slice(3);
    await runSweep(h.deps);
    const change = { who: 'Ada', what: 'registration pause', before: null, after: null };
    await recordChange(h.db, { ...change, target });
    await setPaused(h.db, target, true);
    const entered: string[] = [];
    const metrics = { ...h.deps.metrics, entered: (state: string) => void entered.push(state) };
    await runSweep({ ...h.deps, db: counting(), metrics });
    assert.deepEqual(entered, ['paused']);
    const { stateChanges } = h.db.client(target);
    assert.deepEqual(
      read.filter((key) => key.endsWith('state-changes')),
      [stateChanges],
    );
  });
});
