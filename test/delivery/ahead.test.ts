import assert from 'node:assert/strict';
import { Client, Connection, defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client';
import { beginAttempts } from '../../activities/claimAndAttempt.js';
import { readEnrichmentEvent } from '../../src/enrichmentEvent.js';
import { RedisUnavailable } from '../../src/store/db.js';
import { resumeEndpoint } from '../../src/store/endpoint.js';
import { watchFsync } from '../../src/store/fsync.js';
import type { EnrichmentEvent } from '../../src/store/look.js';
import { resetRegistration } from '../../src/store/registrations.js';
import { type Ahead, createAhead } from '../../src/temporal/ahead.js';
import { wakeCatchUp } from '../../src/temporal/catchUp.js';
import {
  createIntake,
  type Intake,
  type IntakeOptions,
  IntakeUnavailable,
} from '../../src/temporal/intake.js';
import { startProxy } from '../proxy.js';
import { servers } from '../servers.js';
import { type Harness, publishEvent, type Receiver, startHarness, startReceiver, until } from './harness.js';

describe('First attempts that begin before their workflow', () => {
  let h: Harness;
  let receiver: Receiver;
  let proxy: Awaited<ReturnType<typeof startProxy>>;
  let connection: Connection;
  let ahead: Ahead;
  /** Of an API whose worker shares its process; its line to Temporal can hang. */
  let intake: Intake;
  let safe = true;
  let isRedisAway = false;
  /** The clients of events that were claimed together. */
  const rounds: string[][] = [];

  before(async () => {
    h = await startHarness({ RETRY_SCHEDULE_SECONDS: '0.5,20', ATTEMPT_TIMEOUT_SECONDS: '2' });
    receiver = await startReceiver();
    proxy = await startProxy(`http://${servers().temporalAddress}`);
    connection = lineTo(proxy);
    ahead = createAhead({
      beginAttempts: async (events) => {
        if (isRedisAway) throw new RedisUnavailable('by a test');
        rounds.push(events.map(({ clientToken }) => clientToken));
        return await beginAttempts(h.deps, events);
      },
      isSafe: () => safe,
      underWay: h.deps.underWay,
    });
    Object.assign(h.deps, { ahead, answersAreOnDisk: () => safe });
    intake = apiIntake();
    await h.startWorker();
  });
  after(async () => {
    ahead.close();
    await connection.close();
    await proxy.close();
    await receiver.close();
    await h.close();
  });
  beforeEach(() => {
    receiver.answer = () => 200;
    safe = true;
  });

  /** One try for each call, as the API has it. */
  const lineTo = ({ port }: { port: number }) =>
    Connection.lazy({
      address: `127.0.0.1:${port}`,
      interceptors: [makeGrpcRetryInterceptor(defaultGrpcRetryOptions({ maxAttempts: 1 }))],
    });

  function apiIntake(more: Partial<IntakeOptions> = {}): Intake {
    const { deps, taskQueue } = h;
    return createIntake({
      ...{ temporal: new Client({ connection }), taskQueue, log: deps.log },
      ...{ eager: false, ahead, ...more },
    });
  }

  function eventOf(client: string, asset: string, eventId = `an-${asset}`): EnrichmentEvent {
    const event = readEnrichmentEvent(
      { client_token: client, platform_id: asset, event_id: eventId, segments: ['x'] },
      '',
    );
    if ('problem' in event) throw new Error(event.problem);
    return event;
  }

  const publish = (client: string, asset: string, by = intake) =>
    publishEvent(h.db, by, eventOf(client, asset));

  it('are sent once, and their workflow takes the outcome', async () => {
    const client = await h.newClient(receiver.url);
    const { id, kind } = await publish(client, 'once');
    assert.equal(kind, 'queued');
    const workflow = h.temporal.workflow.getHandle(`enrichment/${client}/${id}`);
    await workflow.result();
    assert.deepEqual(receiver.idsOf('once'), [id]);
    const record = await h.notification(client, id);
    assert.equal(record?.state, 'delivered');
    assert.equal(record?.attempts.length, 1);
    const { searchAttributes } = await workflow.describe();
    assert.deepEqual(searchAttributes.NotificationState, ['delivered']);
  });

  it('that fail are tried again by their workflow', async () => {
    const client = await h.newClient(receiver.url);
    receiver.answer = () => 500;
    const { id } = await publish(client, 'again');
    await until('the first attempt', async () => (await h.notification(client, id))?.attempts.length === 1);
    receiver.answer = () => 200;
    await h.temporal.workflow.getHandle(`enrichment/${client}/${id}`).result();
    assert.deepEqual(receiver.idsOf('again'), [id, id]);
    assert.equal((await h.notification(client, id))?.state, 'delivered');
  });

  it('do not wait for Temporal; an event answered 503 and sent again is not sent to the customer twice', async () => {
    const client = await h.newClient(receiver.url);
    proxy.hang();
    const answered = publish(client, 'early');
    await until('the notification', () => receiver.idsOf('early').length === 1);
    await assert.rejects(answered, IntakeUnavailable);
    proxy.release();
    const { id, kind } = await publish(client, 'early');
    assert.equal(kind, 'claimed');
    await until('the start gets through, late', async () => {
      const workflow = h.temporal.workflow.getHandle(`enrichment/${client}/${id}`);
      return (await workflow.describe().catch(() => undefined))?.status.name === 'COMPLETED';
    });
    assert.deepEqual(receiver.idsOf('early'), [id]);
  });

  it('do not begin while Temporal does not answer, but for what came before that was known', async () => {
    const client = await h.newClient(receiver.url);
    proxy.hang();
    await assert.rejects(publish(client, 'unknown'), IntakeUnavailable);
    await assert.rejects(publish(client, 'known'), IntakeUnavailable);
    assert.deepEqual(receiver.idsOf('known'), []);
    proxy.release();
    await until('both', () => receiver.idsOf('known').length === 1 && receiver.idsOf('unknown').length === 1);
    assert.equal((await publish(client, 'back')).kind, 'queued');
  });

  it('wait for little of somebody else’s flood: each client has its share of what is claimed together', async () => {
    const [flood, other] = [await h.newClient(receiver.url), await h.newClient(receiver.url)];
    rounds.length = 0;
    await Promise.all([
      ...Array.from({ length: 200 }, (_, n) => publish(flood, `flood-${n}`)),
      publish(other, 'beside'),
    ]);
    await until('all are claimed', () => rounds.flat().length === 201);
    const ofFlood = rounds.map((clients) => clients.filter((one) => one === flood).length);
    assert.ok(Math.max(...ofFlood) <= 32, ofFlood.join());
    const before = ofFlood.slice(
      0,
      rounds.findIndex((clients) => clients.includes(other)),
    );
    assert.ok(before.length <= 2, `${before.join()} of the flood came first`);
  });

  /** An intake whose second start is of 40 events; what it does after that is up to the test. */
  async function heavyLoad(gatherMs: number, onStart: (n: number) => void = () => undefined) {
    const client = await h.newClient(receiver.url);
    let starts = 0;
    let withoutWorkflow = 0;
    const by = apiIntake({
      gatherMs,
      grouped: () => onStart(++starts),
      withoutWorkflow: () => withoutWorkflow++,
    });
    proxy.hang();
    const alone = publish(client, 'alone', by);
    await until('its start hangs', () => starts === 1);
    const load = Array.from({ length: 40 }, (_, n) => publish(client, `load-${n}`, by));
    await until('the load waits', () => by.waiting() === 40);
    return {
      by,
      starts: () => starts,
      withoutWorkflow: () => withoutWorkflow,
      async release() {
        proxy.release();
        await Promise.all([alone, ...load]);
      },
    };
  }

  /** An intake at heavy load, whose next start is far away. */
  async function atHeavyLoad() {
    const load = await heavyLoad(60_000);
    await load.release();
    return load;
  }

  it('at heavy load are answered for once they are on disk, and their workflow follows', async () => {
    const client = await h.newClient(receiver.url);
    const { by, starts } = await atHeavyLoad();
    receiver.answer = () => 500;
    const { id, kind } = await publish(client, 'gathered', by);
    assert.equal(kind, 'queued');
    assert.equal((await h.notification(client, id))?.state, 'waiting');
    await until('the first attempt', async () => (await h.notification(client, id))?.attempts.length === 1);
    assert.equal(starts(), 2);
    receiver.answer = () => 200;
    await by.close();
    assert.equal(starts(), 3);
    await until('it is delivered', async () => (await h.notification(client, id))?.state === 'delivered');
  });

  it('at heavy load need no workflow where they deliver', async () => {
    const client = await h.newClient(receiver.url);
    const id = await publishWithoutWorkflow(client, 'delivered-before', 'delivered');
    assert.equal((await publish(client, 'delivered-before')).kind, 'claimed');
    assert.deepEqual(receiver.idsOf('delivered-before'), [id]);
  });

  it('at heavy load need no workflow where they are catch-up’s', async () => {
    const client = await h.newClient(receiver.url);
    await suspendEndpoint(client);
    const id = await publishWithoutWorkflow(client, 'left', 'waiting');
    const catchUp = h.temporal.workflow.getHandle(`catch-up/${client}`);
    assert.equal((await catchUp.describe()).status.name, 'RUNNING');
    await resumeEndpoint(h.db, client);
    await wakeCatchUp(h.temporal, h.db, client, { taskQueue: h.taskQueue });
    await until('it is delivered', async () => (await h.notification(client, id))?.state === 'delivered');
  });

  /** At heavy load: its notification is in this state, and the intake done with it, before anything more is started. */
  async function publishWithoutWorkflow(client: string, asset: string, state: string): Promise<string> {
    const { by, starts, withoutWorkflow } = await atHeavyLoad();
    const { id, kind } = await publish(client, asset, by);
    assert.equal(kind, 'queued');
    await until('it is done with', () => by.waiting() === 0);
    assert.equal((await h.notification(client, id))?.state, state);
    assert.equal(withoutWorkflow(), 1);
    await by.close();
    assert.equal(starts(), 2);
    return id;
  }

  it('at heavy load: it stays heavy while few come for a moment', async () => {
    const client = await h.newClient(receiver.url);
    const { by, starts, release } = await heavyLoad(1000);
    await release();
    receiver.answer = () => 500;
    await by.takeAtOnce(arrived(client, 'gathered'));
    await until('the few have been gathered and started', () => starts() === 3);
    receiver.answer = () => 200;
    assert.deepEqual(await by.takeAtOnce(arrived(client, 'next')), { kind: 'new', claim: 0 });
    await by.close();
  });

  it('at heavy load are looked at, claimed and begun in one step, and answered as a look answers', async () => {
    const client = await h.newClient(receiver.url);
    const other = await h.newClient(receiver.url);
    await resetRegistration(h.db, other);
    const light = apiIntake();
    assert.equal(light.takeAtOnce(arrived(client, 'at-light-load')), undefined);
    const { by, withoutWorkflow } = await atHeavyLoad();
    const first = arrived(client, 'at-once');
    assert.deepEqual(await by.takeAtOnce(first), { kind: 'new', claim: 0 });
    await until('it is done with', () => by.waiting() === 0);
    assert.deepEqual(receiver.idsOf('at-once'), [first.notificationId]);
    assert.equal(withoutWorkflow(), 1);
    assert.deepEqual(await by.takeAtOnce(first), { kind: 'claimed' });
    const known = arrived(client, 'at-once', 'another');
    assert.deepEqual(await by.takeAtOnce(known), { kind: 'none', reason: 'no_new_segments' });
    assert.deepEqual(await by.takeAtOnce(arrived(other, 'a')), { kind: 'none', reason: 'not_registered' });
    assert.deepEqual(await by.takeAtOnce(arrived('nobody', 'a')), { kind: 'unknown_client' });
    const backfill = { ...arrived(client, 'b'), priority: 'backfill' as const };
    assert.equal(by.takeAtOnce(backfill), undefined, 'backfill never begins before its workflow');
    assert.equal(by.waiting(), 0);
    await by.close();
    assert.equal(receiver.received.filter(({ body }) => body.includes('"at-once"')).length, 1);
  });

  it('at heavy load: what failed as Redis was away is taken when it is back', async () => {
    const client = await h.newClient(receiver.url);
    const { by } = await atHeavyLoad();
    isRedisAway = true;
    await assert.rejects(by.takeAtOnce(arrived(client, 'away')) ?? Promise.resolve(), RedisUnavailable);
    isRedisAway = false;
    assert.equal(by.waiting(), 0);
    assert.deepEqual(await by.takeAtOnce(arrived(client, 'away')), { kind: 'new', claim: 0 });
    await until('it is delivered', () => receiver.idsOf('away').length === 1);
    await by.close();
  });

  it('at heavy load: a client whose claim fails harms no other, and one with too much waiting is looked at first', async () => {
    const [broken, well] = [await h.newClient(receiver.url), await h.newClient(receiver.url)];
    const { by } = await atHeavyLoad();
    const keys = h.db.client(broken);
    await h.db.redis.set(keys.owed, 'no hash');
    const answers = await Promise.all([
      by.takeAtOnce(arrived(broken, 'a')),
      by.takeAtOnce(arrived(well, 'a')),
    ]);
    await h.db.redis.del(keys.owed);
    assert.deepEqual(answers, [undefined, { kind: 'new', claim: 0 }]);
    await until('the one is done with', () => by.waiting() === 0);
    const many = Array.from({ length: 80 }, (_, n) => by.takeAtOnce(arrived(well, `many-${n}`)));
    assert.equal(many.filter((one) => one === undefined).length, 80 - 65);
    await Promise.all(many);
    await until('all are done with', () => by.waiting() === 0);
    await by.close();
  });

  function arrived(client: string, asset: string, eventId?: string) {
    const { notify: _, ...event } = eventOf(client, asset, eventId);
    return { ...event, acceptedAt: Date.now() };
  }

  async function suspendEndpoint(client: string): Promise<void> {
    receiver.answer = () => 410;
    const { id } = await publish(client, 'gone');
    await until('the answer 410', async () => (await h.notification(client, id))?.attempts.length === 1);
    receiver.answer = () => 200;
  }

  it('at heavy load wait for their workflow while a start before it takes long', async () => {
    const client = await h.newClient(receiver.url);
    const { by, starts, release } = await heavyLoad(0, () => proxy.hang());
    const loaded = release();
    await until('the start of the load hangs', () => starts() === 2);
    const first = assert.rejects(publish(client, 'first', by), IntakeUnavailable);
    await until('it waits', () => by.waiting() === 1);
    proxy.release();
    await loaded;
    await until('the next start hangs', () => starts() === 3);
    const hangsFrom = performance.now();
    await until('for long', () => performance.now() > hangsFrom + 300);
    await Promise.all([first, assert.rejects(publish(client, 'second', by), IntakeUnavailable)]);
    proxy.release();
    await by.close();
  });

  it('are picked up by the sweep where their workflow never starts', async () => {
    const client = await h.newClient(receiver.url);
    receiver.answer = () => 500;
    const nowhere = await startProxy(`http://${servers().temporalAddress}`);
    const line = lineTo(nowhere);
    nowhere.hang();
    const alone = apiIntake({ temporal: new Client({ connection: line }) });
    await assert.rejects(publish(client, 'orphan', alone), IntakeUnavailable);
    await line.close();
    await nowhere.close();
    const [id = ''] = receiver.idsOf('orphan');
    assert.equal((await h.notification(client, id))?.state, 'waiting');
    receiver.answer = () => 200;
    h.skip(120_000);
    await h.sweep();
    await until('it is delivered', async () => (await h.notification(client, id))?.state === 'delivered');
    assert.deepEqual(receiver.idsOf('orphan'), [id, id]);
  });

  it('begin only where Redis has on its disk what it has answered', async () => {
    const client = await h.newClient(receiver.url);
    safe = false;
    proxy.hang();
    await assert.rejects(publish(client, 'unsafe', apiIntake()), IntakeUnavailable);
    assert.deepEqual(receiver.idsOf('unsafe'), []);
    proxy.release();
    await until('it is delivered by its workflow', () => receiver.idsOf('unsafe').length === 1);
  });

  it('are left out once Redis no longer syncs at every write, and while it is not known', async () => {
    const setting = async () => (await h.db.redis.config('GET', 'appendfsync')) as [string, string];
    const [, before] = await setting();
    const fsync = watchFsync(h.db);
    try {
      assert.equal(fsync.always(), false);
      await h.db.redis.config('SET', 'appendfsync', 'always');
      h.db.redis.disconnect(true);
      await until('it is known', () => fsync.always());
      await h.db.redis.config('SET', 'appendfsync', 'everysec');
      h.db.redis.disconnect(true);
      await until('the connection is lost', () => !fsync.always());
      await until('the connection is back', () => h.db.redis.status === 'ready');
      await h.db.redis.ping();
      assert.equal(fsync.always(), false);
    } finally {
      fsync.close();
      await h.db.redis.config('SET', 'appendfsync', before);
    }
  });
});
