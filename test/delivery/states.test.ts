import assert from 'node:assert/strict';
import type { Logger } from '../../src/log.js';
import { getEndpoint, listStateChanges } from '../../src/redis/records/endpoint.js';
import { type Cli, openCli } from '../operator/cli.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { type Harness, newCustomer, newToken, type RunningApi, startApi, startHarness } from '../service.js';

interface Told {
  level: string;
  client_token: string;
  from: string;
  to: string;
  why: string;
}

describe('each change of a registration’s state is logged, counted, audited and shown', () => {
  let h: Harness;
  let api: RunningApi;
  let cli: Cli;
  let receiver: Receiver;
  let customer: Awaited<ReturnType<typeof newCustomer>>;
  let token: string;
  const told: Told[] = [];
  const counted: string[] = [];
  /** Returns operators' changes in the service's log. */
  const changes: string[] = [];

  before(async () => {
    const settings = { failingAfter: 2, RETRY_SCHEDULE_SECONDS: '0.05', probeScheduleMs: [100] };
    const metrics = { entered: (state: string) => counted.push(state) };
    h = await startHarness(settings, 'all', { log: recorder(), metrics });
    await h.startWorker();
    api = await startApi({ prefix: h.db.prefix, env: { TASK_QUEUE: h.taskQueue }, log: recorder() });
    cli = await openCli({ KEY_PREFIX: h.db.prefix, TASK_QUEUE: h.taskQueue });
    receiver = await startReceiver();
    customer = await newCustomer(api);
    token = await newToken(api, customer);
  });
  after(async () => {
    cli.close();
    await api.close();
    await h.close();
    await receiver.close();
  });

  function recorder(): Logger {
    const at = (level: string) => (fields: Told & { what?: string }) => {
      if (fields.from !== undefined) told.push({ ...fields, level });
      if (fields.what !== undefined) changes.push(fields.what);
    };
    const silent = () => undefined;
    const log: unknown = {
      error: at('error'),
      warn: at('warn'),
      info: at('info'),
      debug: silent,
      child: () => log,
    };
    return log as Logger;
  }

  const client = () => customer.client_token;
  const reaches = (state: string) =>
    until(state, async () => (await getEndpoint(h.db, client())).state === state);
  const lastTold = () => told.at(-1) as Told;

  async function call(method: string, path: string, query: Record<string, string> = {}) {
    const url = `${api.url}${path}?${new URLSearchParams({ client_token: client(), ...query })}`;
    const answer = await fetch(url, { method, headers: { authorization: `Bearer ${token}` } });
    return (await answer.json()) as Record<string, unknown>;
  }

  it('for changes by the worker and the publisher: registered, failing, active, suspended, resumed', async () => {
    await call('POST', '/register_push_notifications', { url: receiver.url });
    assert.deepEqual(lastTold(), {
      level: 'info',
      client_token: client(),
      from: 'not_registered',
      to: 'active',
      why: 'registered',
    });
    receiver.answer = () => 500;
    await h.publish({ client: client(), asset: 'a' });
    await reaches('failing');
    const seen = await call('GET', '/push_notifications');
    assert.equal(seen.state_reason, '2 attempts failed in a row');
    assert.ok(Date.parse(String(seen.state_since)) <= Date.now());
    receiver.answer = () => 200;
    await reaches('active');
    await until('told', () => lastTold().why === 'a probe succeeded');
    receiver.answer = () => 410;
    await h.publish({ client: client(), asset: 'b' });
    await reaches('suspended');
    await until('the operator is told', () => lastTold().to === 'suspended');
    assert.equal(lastTold().level, 'error');
    receiver.answer = () => 200;
    await call('POST', '/push_notifications/resume');
    await reaches('active');
    await until('told', () => told.length === 6);
    assert.deepEqual(
      told.map(({ level, from, to, why }) => [level, from, to, why]),
      [
        ['info', 'not_registered', 'active', 'registered'],
        ['warn', 'active', 'failing', '2 attempts failed in a row'],
        ['info', 'failing', 'active', 'a probe succeeded'],
        ['error', 'active', 'suspended', 'it answered 410'],
        ['warn', 'suspended', 'failing', 'resumed by the publisher'],
        ['info', 'failing', 'active', 'a probe succeeded'],
      ],
    );
    assert.deepEqual(counted, ['failing', 'active', 'suspended', 'active'], 'counted by the worker');
    const metrics = await api.deps.metrics.registry.metrics();
    for (const state of ['active', 'failing']) {
      assert.match(metrics, new RegExp(`asset_update_endpoint_state_changes_total\\{state="${state}"\\} 1`));
    }
    assert.equal(metrics.includes(client()), false, 'no client is a label');
  });

  it('for changes by an operator: paused, resumed, account disabled and enabled, changed, reset', async () => {
    await cli.json('registration', 'pause', client());
    assert.equal((await cli.json('registration', 'show', client())).state_reason, 'paused');
    await cli.json('registration', 'resume', client());
    await cli.json('account', 'disable', customer.account_id);
    const held = await cli.json('registration', 'show', client());
    assert.deepEqual(
      [held.state, held.held, held.state_reason],
      ['paused', true, 'its account was disabled'],
    );
    await cli.json('account', 'enable', customer.account_id);
    await cli.json('registration', 'change', client(), '--url', `${receiver.url}/next`);
    await cli.json('registration', 'reset', client());
    const byOperator = (await listStateChanges(h.db, { onBroken: (client) => assert.fail(client) })).filter(
      (change) => change.by === 'operator',
    );
    assert.deepEqual(
      byOperator.map(({ from, to, why }) => [from, to, why]),
      [
        ['active', 'paused', 'paused'],
        ['paused', 'active', 'resumed'],
        ['active', 'paused', 'its account was disabled'],
        ['paused', 'active', 'its account was enabled'],
        ['active', 'not_registered', 'reset'],
      ],
    );
    told.length = counted.length = changes.length = 0;
    await h.sweep();
    assert.deepEqual(
      told,
      byOperator.map(({ from, to, why }) => ({ ...told[0], from, to, why })),
    );
    assert.deepEqual(counted, ['paused', 'active', 'paused', 'active', 'not_registered']);
    assert.deepEqual(changes.slice(0, 2), ['registration pause', 'registration resume']);
    await h.sweep();
    assert.equal(told.length, byOperator.length, 'each is told once');
  });
});
