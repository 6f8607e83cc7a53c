import assert from 'node:assert/strict';
import { recordChange } from '../../src/redis/records/audit.js';
import { listStateChanges, setPaused } from '../../src/redis/records/endpoint.js';
import { runSweep } from '../../src/upkeep/sweep.js';
import { openCli } from '../operator/cli.js';
import { startReceiver, until } from '../receiver.js';
import { forSuite, openForSuite } from '../servers.js';
import { keptLog, newCustomer, startWithWorker } from '../service.js';

describe('each change of a registration’s state is logged, counted, audited and shown', () => {
  const { log, lines } = keptLog('info');
  const settings = { failingAfter: 2, RETRY_SCHEDULE_SECONDS: '0.05', probeScheduleMs: [100] };
  const h = openForSuite(() => startWithWorker(settings, { log }));
  const cli = forSuite(() => openCli({ KEY_PREFIX: h.db.prefix, TASK_QUEUE: h.taskQueue }));
  const receiver = forSuite(() => startReceiver());
  const customer = forSuite(() => newCustomer(h));
  /** The changes of state in the service's log. */
  const told = () =>
    lines.flatMap(({ level, client_token, from, to, why }) =>
      from === undefined ? [] : [{ level, client_token, from, to, why }],
    );

  const client = () => customer.client_token;
  const reaches = (state: string) => until(state, async () => (await h.endpoint(client())).state === state);
  /** The counter of each state; no client is a label. */
  async function counted(): Promise<Record<string, number>> {
    const text = await h.apiDeps.metrics.registry.metrics();
    assert.equal(text.includes(client()), false);
    const found = text.matchAll(/asset_update_endpoint_state_changes_total\{state="(\w+)"\} (\d)/g);
    return Object.fromEntries([...found].map(([, state, count]) => [state, Number(count)]));
  }

  it('for changes by the worker and the publisher: registered, failing, active, suspended, resumed', async () => {
    await customer.register(receiver.url);
    receiver.answer = () => 500;
    await h.publish({ client: client(), asset: 'a' });
    await reaches('failing');
    const { body: seen } = await customer.call('GET', '/push_notifications');
    assert.equal(seen.state_reason, '2 attempts failed in a row');
    assert.ok(Date.parse(String(seen.state_since)) <= Date.now());
    receiver.answer = () => 200;
    await reaches('active');
    await until('told', () => told().at(-1)?.why === 'a probe succeeded');
    receiver.answer = () => 410;
    await h.publish({ client: client(), asset: 'b' });
    await reaches('suspended');
    await until('the operator is told', () => told().at(-1)?.to === 'suspended');
    receiver.answer = () => 200;
    await customer.call('POST', '/push_notifications/resume');
    await reaches('active');
    await until('told', () => told().length === 6);
    const [info, warn, error] = [30, 40, 50];
    const changes = told().map((one) => [one.level, one.client_token, one.from, one.to, one.why]);
    assert.deepEqual(changes, [
      [info, client(), 'not_registered', 'active', 'registered'],
      [warn, client(), 'active', 'failing', '2 attempts failed in a row'],
      [info, client(), 'failing', 'active', 'a probe succeeded'],
      [error, client(), 'active', 'suspended', 'it answered 410'],
      [warn, client(), 'suspended', 'failing', 'resumed by the publisher'],
      [info, client(), 'failing', 'active', 'a probe succeeded'],
    ]);
    assert.deepEqual(await counted(), { active: 3, failing: 2, suspended: 1, paused: 0, not_registered: 0 });
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
    const byOperator = (await listStateChanges(h.db, [client()], 0, (one) => assert.fail(one))).filter(
      (change) => change.by === 'operator',
    );
    const operators = byOperator.map(({ from, to, why }) => [from, to, why]);
    assert.deepEqual(operators, [
      ['active', 'paused', 'paused'],
      ['paused', 'active', 'resumed'],
      ['active', 'paused', 'its account was disabled'],
      ['paused', 'active', 'its account was enabled or resumed'],
      ['active', 'active', 'the url was changed'],
      ['active', 'not_registered', 'reset'],
    ]);
    const ofState = byOperator.filter(({ from, to }) => from !== to);
    lines.length = 0;
    await runSweep(h.deps);
    assert.deepEqual(
      told(),
      ofState.map(({ from, to, why }) => ({ ...told()[0], from, to, why })),
    );
    const all = { active: 5, failing: 2, suspended: 1, paused: 2, not_registered: 1 };
    assert.deepEqual(await counted(), all);
    const changes = lines.flatMap(({ what }) => what ?? []);
    assert.deepEqual(changes.slice(0, 2), ['registration pause', 'registration resume']);
    await runSweep(h.deps);
    assert.equal(told().length, ofState.length, 'each is told once');
  });

  it('for a change that follows its entry in the audit: by the next sweep, or half a minute after the entry', async () => {
    const site = async () => {
      const other = await newCustomer(h);
      await other.register(receiver.url);
      return other;
    };
    const tells = async (client: string, to: string) => {
      for (let i = 0; i < 2; i++) await runSweep(h.deps);
      const changes = told().map((change) => [change.client_token, change.to]);
      assert.deepEqual(changes, [[client, to]]);
      lines.length = 0;
    };
    const [{ account_id, client_token }, later] = [await site(), await site()];
    lines.length = 0;
    await cli.json('account', 'disable', account_id);
    await tells(client_token, 'paused');
    await cli.json('account', 'enable', account_id);
    await tells(client_token, 'active');
    await cli.json('client', 'delete', client_token);
    await tells(client_token, 'not_registered');
    const pause = { who: 'Ada', what: 'registration pause', before: null, after: null };
    await recordChange(h.db, { ...pause, target: later.client_token });
    await runSweep(h.deps);
    await setPaused(h.db, later.client_token, true);
    h.skip(30_000);
    await tells(later.client_token, 'paused');
  });
});
