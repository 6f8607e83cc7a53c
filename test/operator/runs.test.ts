import assert from 'node:assert/strict';
import { readEnrichmentEvent } from '../../src/delivery/event.js';
import { claimEvents } from '../../src/redis/owed/claim.js';
import { owedOverview } from '../../src/redis/owed/owedClients.js';
import { getEndpoint, pauseEndpoint, unpauseEndpoint } from '../../src/redis/records/endpoint.js';
import { announceRuns } from '../../src/redis/runs/announce.js';
import { applyToClient, changedRuns } from '../../src/redis/runs/change.js';
import { sumRun } from '../../src/redis/runs/runs.js';
import {
  type Harness,
  type Receiver,
  startGate,
  startHarness,
  startReceiver,
  until,
} from '../delivery/harness.js';
import { type Cli, openCli } from './cli.js';

describe('operator: run', function () {
  this.timeout(180_000);
  let h: Harness;
  let cli: Cli;
  let receiver: Receiver;
  let count = 0;
  const newRun = () => `run-${++count}`;

  before(async () => {
    // A command may take long on a busy machine.
    h = await startHarness({ ATTEMPT_TIMEOUT_SECONDS: '60' });
    await h.startWorker();
    cli = await openCli({ KEY_PREFIX: h.db.prefix, TASK_QUEUE: h.taskQueue });
  });
  beforeEach(async () => {
    receiver = await startReceiver();
  });
  afterEach(() => receiver.close());
  after(async () => {
    cli.close();
    await h.close();
  });

  const counts = async (runId: string) => (await sumRun(h.db, runId)).counts;
  const stateOf = async (client: string, id: string) => (await h.notification(client, id))?.state;
  const isState = (client: string, id: string, state: string) =>
    until(`${id} is ${state}`, async () => (await stateOf(client, id)) === state);

  /** Claims many events of one client, 500 in a script, as fast as Redis takes them. */
  async function oweMany(client: string, runId: string | undefined, howMany: number): Promise<void> {
    if (runId !== undefined) await announceRuns(h.db, client, [{ runId }]);
    for (let from = 0; from < howMany; from += 500) {
      const events = Array.from({ length: Math.min(500, howMany - from) }, (_, i) => {
        const event = readEnrichmentEvent(
          {
            client_token: client,
            platform_id: `${runId ?? 'other'}-${from + i}`,
            segments: ['iab:17'],
            ...(runId !== undefined && { run_id: runId }),
          },
          '',
        );
        if ('problem' in event) throw new Error(event.problem);
        return { ...event, acceptedAt: Date.now() };
      });
      await claimEvents(h.db, client, events);
    }
  }

  it('cancels 30,000 owed notifications within seconds, keeps those of others, and records the change', async () => {
    const runId = newRun();
    const [client, second] = [await h.newClient(receiver.url), await h.newClient(receiver.url)];
    for (const one of [client, second]) await pauseEndpoint(h.db, one);
    await oweMany(client, runId, 25_000);
    await oweMany(client, undefined, 500);
    await oweMany(second, runId, 5_000);
    assert.deepEqual(await cli.json('run', 'cancel', runId), {
      ...{ run_id: runId, previous_state: 'active', state: 'cancelled', owed: 30_000 },
    });
    await until('nothing of it is owed', async () => (await counts(runId)).owed === 0, 120_000);
    assert.deepEqual(await counts(runId), {
      ...{ accepted: 30_000, none: 0, owed: 0, delivered: 0, superseded: 0 },
      ...{ not_needed: 0, failed: 0, cancelled: 30_000 },
    });
    assert.equal((await getEndpoint(h.db, client)).owed, 500);
    assert.ok((await owedOverview(h.db, client, 1e10)).isConsistent);
    await until('it is done', async () => (await changedRuns(h.db, 10)).length === 0);
    const audit = await cli.json('audit');
    const change = audit.find((entry: { target: string }) => entry.target === runId);
    assert.deepEqual(
      [change.what, change.before, change.after],
      ['run cancel', { state: 'active', owed: 30_000 }, { state: 'cancelled' }],
    );
    const again = await cli.json('run', 'cancel', runId);
    assert.equal(again.previous_state, 'cancelled');
  });

  it('continues an interrupted cancel, without a command and with no workflow left', async () => {
    const runId = newRun();
    const client = await h.newClient(receiver.url);
    await pauseEndpoint(h.db, client);
    await oweMany(client, runId, 3000);
    await h.stopWorker();
    await cli.json('run', 'cancel', runId);
    await h.temporal.workflow.getHandle(h.ids.run(runId)).terminate();
    let steps = 0;
    const crash = () => {
      if (++steps > 10) throw new Error('killed');
    };
    await assert.rejects(applyToClient(h.db, client, runId, crash), /killed/);
    const { owed } = await counts(runId);
    assert.ok(owed > 0 && owed < 3000, `${owed} are left`);
    await h.startWorker();
    await h.sweep();
    await until('nothing of it is owed', async () => (await counts(runId)).owed === 0);
    assert.equal((await counts(runId)).cancelled, 3000);
  });

  it('cancels while Temporal is unavailable: nothing of the run is sent, and the sweep does the rest', async () => {
    const runId = newRun();
    const client = await h.newClient(receiver.url);
    await pauseEndpoint(h.db, client);
    const { id } = await h.publish({ client, asset: 'a', runId });
    const away = { TEMPORAL_ADDRESS: '127.0.0.1:1' };
    const ran = await cli.run(['run', 'cancel', runId], { env: away });
    assert.equal(ran.status, 0, ran.stderr);
    assert.match(ran.stderr, /waits for Temporal/);
    await unpauseEndpoint(h.db, client);
    await h.wake(client);
    const other = await h.publish({ client, asset: 'b' });
    await isState(client, other.id, 'delivered');
    assert.equal(await stateOf(client, id), 'waiting');
    await h.sweep();
    await isState(client, id, 'cancelled');
    assert.deepEqual(receiver.idsOf('a'), []);
  });

  it('lets an attempt under way at a cancel go on, and its notification is delivered', async () => {
    const runId = newRun();
    const client = await h.newClient(receiver.url);
    const gate = startGate();
    receiver.answer = async () => {
      await gate.closed;
      return 200;
    };
    const { id } = await h.publish({ client, asset: 'a', runId });
    await until('it is under way', () => receiver.received.length === 1);
    await cli.json('run', 'cancel', runId);
    gate.open();
    await isState(client, id, 'delivered');
    const handle = h.temporal.workflow.getHandle(h.ids.run(runId));
    await handle.result();
    assert.equal((await counts(runId)).delivered, 1);
  });

  it('pauses a run, whose notifications wait while others of the client are delivered, and resumes it', async () => {
    const runId = newRun();
    const client = await h.newClient(receiver.url);
    receiver.answer = () => 500;
    const own = await h.publish({ client, asset: 'own', runId });
    await until('tried', () => receiver.received.length > 0);
    assert.deepEqual(await cli.json('run', 'pause', runId), {
      ...{ run_id: runId, previous_state: 'active', state: 'paused', owed: 1 },
    });
    receiver.answer = () => 200;
    const late = await h.publish({ client, asset: 'late', runId });
    const other = await h.publish({ client, asset: 'other' });
    await isState(client, other.id, 'delivered');
    h.skip(60_000);
    await h.wake(client);
    const reason = async (id: string) => (await h.notification(client, id))?.waitingReason;
    await until('parked', async () => (await reason(own.id)) === 'run_paused');
    assert.equal(await reason(late.id), 'run_paused');
    const shown = await cli.json('notification', 'show', own.id);
    assert.deepEqual([shown.run_id, shown.waiting_reason], [runId, 'run_paused']);
    assert.equal((await cli.json('run', 'resume', runId)).previous_state, 'paused');
    await isState(client, own.id, 'delivered');
    await isState(client, late.id, 'delivered');
    assert.deepEqual(receiver.idsOf('late'), [late.id]);
  });

  it('forgets segments of a cancelled run only, and the correct analysis notifies again', async () => {
    const runId = newRun();
    const client = await h.newClient(receiver.url);
    const wrong = await h.publish({ client, asset: 'a', segments: ['x', 'y'], runId });
    await isState(client, wrong.id, 'delivered');
    const refused = await cli.run(['run', 'forget', runId]);
    assert.equal(refused.status, 1);
    assert.match(refused.stderr, /is active: cancel it first/);
    await cli.json('run', 'cancel', runId);
    assert.equal((await h.publish({ client, asset: 'a', segments: ['x'] })).kind, 'no_new_segments');
    await cli.json('run', 'forget', runId);
    await until('forgotten', async () => (await cli.json('run', 'show', runId)).forgotten_segments === 2);
    const right = await h.publish({ client, asset: 'a', segments: ['x'] });
    assert.equal(right.kind, 'queued');
    await isState(client, right.id, 'delivered');
    const resumed = await cli.run(['run', 'resume', runId]);
    assert.deepEqual(
      [resumed.status, resumed.stderr.trim()],
      [1, `${runId} is cancelled and stays cancelled.`],
    );
  });

  it('lists the newest runs first, shows one, and refuses an unknown or malformed id', async () => {
    const [older, newer] = [newRun(), newRun()];
    const client = await h.newClient(receiver.url);
    for (const runId of [older, newer]) await h.publish({ client, asset: runId, runId });
    const listed = await cli.json('run', 'list', '--limit', '2');
    assert.deepEqual(
      listed.map((one: { run_id: string }) => one.run_id),
      [newer, older],
    );
    const shown = await cli.json('run', 'show', newer);
    assert.deepEqual([shown.state, shown.accepted, shown.clients], ['active', 1, 1]);
    assert.match((await cli.run(['run', 'show', newer])).stdout, new RegExp(`run_id +${newer}`));
    assert.match((await cli.run(['run', 'list'])).stdout, /RUN +STATE/);
    const unknown = await cli.run(['run', 'pause', 'none']);
    assert.equal(unknown.status, 1);
    assert.match(unknown.stderr, /There is no run none/);
    assert.equal((await cli.run(['run', 'show', 'a b'])).status, 2);
  });

  it('shows the progress that the sweep records each minute and then less often, until the run has ended', async () => {
    const runId = newRun();
    const client = await h.newClient(receiver.url);
    await pauseEndpoint(h.db, client);
    const { id } = await h.publish({ client, asset: 'a', runId });
    await h.sweep();
    await h.sweep();
    const progress = async () => (await cli.json('run', 'show', runId)).progress;
    assert.deepEqual(
      (await progress()).map((p: { owed: number }) => p.owed),
      [1],
    );
    await unpauseEndpoint(h.db, client);
    await h.wake(client);
    await isState(client, id, 'delivered');
    h.skip(11 * 60_000);
    await h.sweep();
    h.skip(60_000);
    await h.sweep();
    const seen = await progress();
    assert.deepEqual(
      seen.map((p: { owed: number; delivered: number }) => [p.owed, p.delivered]),
      [
        [1, 0],
        [0, 1],
      ],
    );
    h.skip(15 * 86_400_000);
    await h.sweep();
    assert.equal((await cli.run(['run', 'show', runId])).status, 1, 'kept no longer');
  });
});
