import assert from 'node:assert/strict';
import { changeRun } from '../../src/redis/runs/change.js';
import { type Harness, type Receiver, startHarness, startReceiver, until } from '../delivery/harness.js';
import { newCustomer, newToken, type RunningApi, startApi } from './runningApi.js';

type Json = Record<string, unknown>;

describe('GET /runs/{run_id}', () => {
  let h: Harness;
  let api: RunningApi;
  let receiver: Receiver;
  let token: string;

  before(async () => {
    h = await startHarness();
    await h.startWorker();
    api = await startApi({ prefix: h.db.prefix, env: { TASK_QUEUE: h.taskQueue } });
    receiver = await startReceiver();
    token = await newToken(api, await newCustomer(api, ['enrichments']));
  });
  after(async () => {
    await api.close();
    await receiver.close();
    await h.close();
  });

  async function call(method: string, path: string, body?: unknown, bearer = token) {
    const answer = await fetch(`${api.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return { status: answer.status, headers: answer.headers, body: (await answer.json()) as Json };
  }
  const publish = (body: unknown) => call('POST', '/enrichments', body);
  const show = async (runId: string) => (await call('GET', `/runs/${runId}`)).body;

  it('counts the results of the events of a run, over all its clients', async () => {
    const [one, two] = [await h.newClient(receiver.url), await h.newClient(receiver.url)];
    const silent = await h.newClient();
    const run_id = 'nightly:2026-01-31.a';
    const events = [one, two, silent].map((client_token) => ({
      ...{ client_token, platform_id: 'vid-9', segments: ['iab:17'], run_id },
    }));
    assert.equal((await publish({ events })).status, 202);
    const [first] = events;
    assert.equal((await publish({ ...first, platform_id: 'vid-10' })).status, 202);
    assert.equal((await publish({ ...first, run_id: 'another', platform_id: 'vid-11' })).status, 202);
    const shown = await until('all is delivered', async () => {
      const found = await show(run_id);
      return found.delivered === 3 && found;
    });
    const { first_event_at, ...rest } = shown;
    assert.ok(Math.abs(Date.parse(String(first_event_at)) - Date.now()) < 60_000);
    assert.deepEqual(rest, {
      ...{ run_id, state: 'active', clients: 3, accepted: 4, none: 1, owed: 0, delivered: 3, superseded: 0 },
      ...{ not_needed: 0, failed: 0, cancelled: 0, forgotten_segments: 0, progress: [] },
    });
  });

  it('answers 409 run_cancelled to further events of a cancelled run, in a batch in the item, and accepts nothing of them', async () => {
    const client_token = await h.newClient(receiver.url);
    const event = { client_token, platform_id: 'a', segments: ['iab:1'], run_id: 'bad' };
    assert.equal((await publish(event)).status, 202);
    assert.equal((await changeRun(h.db, 'bad', 'cancelled')).outcome, 'changed');
    // A client that the run names for the first time, before any client follows.
    const other = { ...event, client_token: await h.newClient(receiver.url), event_id: 'an-2' };
    const refused = await publish(other);
    assert.deepEqual([refused.status, refused.body.code], [409, 'run_cancelled']);
    const batch = await publish({ events: [other, { ...other, run_id: 'good', event_id: 'an-3' }] });
    assert.equal(batch.status, 202);
    const [first, second] = batch.body.results as Json[];
    assert.deepEqual([first?.event_id, first?.code], ['an-2', 'run_cancelled']);
    assert.equal(second?.notification, 'queued', 'its segments were not taken before');
    assert.equal((await show('bad')).state, 'cancelled');
  });

  it('answers 400 to a malformed run_id', async () => {
    const client_token = await h.newClient(receiver.url);
    for (const run_id of ['', 'a b', 'x'.repeat(129), 7, null]) {
      const answer = await publish({ client_token, platform_id: 'a', segments: [], run_id });
      assert.deepEqual([answer.status, answer.body.code], [400, 'invalid_request'], String(run_id));
      assert.match(String(answer.body.msg), /run_id/);
    }
  });

  it('answers 404 unknown_run, 403 without the scope, 401 without a token, 400 to a parameter', async () => {
    for (const path of ['/runs/none', `/runs/${'x'.repeat(129)}`, '/runs/a%20b']) {
      const answer = await call('GET', path);
      assert.deepEqual([answer.status, answer.body.code], [404, 'unknown_run'], path);
    }
    const publisher = await newToken(api, await newCustomer(api));
    assert.equal((await call('GET', '/runs/none', undefined, publisher)).body.code, 'insufficient_scope');
    assert.equal((await call('GET', '/runs/none', undefined, 'no')).status, 401);
    assert.equal((await call('GET', '/runs/none?x=1')).status, 400);
    assert.match((await call('GET', '/runs/none')).headers.get('ratelimit-policy') ?? '', /"records"/);
  });
});
