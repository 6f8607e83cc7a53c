import assert from 'node:assert/strict';
import { createDesk } from '../../src/desk/desk.js';
import { listen } from '../../src/http/server.js';
import { askRedis } from '../../src/operator/redisChecks.js';
import { describeRefusals } from '../../src/operator/temporalChecks.js';
import { witnessClocks } from '../../src/redis/connection/clocks.js';
import { cancelNotification } from '../../src/redis/notifications/redeliver.js';
import { claimAgain } from '../../src/redis/owed/claim.js';
import { noteCounts } from '../../src/redis/records/counts.js';
import { getEndpoint, resumeEndpoint, setPaused } from '../../src/redis/records/endpoint.js';
import { countMinutes } from '../../src/redis/records/minutes.js';
import { createSweepSchedule } from '../../src/temporal/sweepSchedule.js';
import { personAt } from '../desk/scene.js';
import { status as grpc, startGrpcProxy } from '../grpcProxy.js';
import { startService } from '../program.js';
import { startProxy } from '../proxy.js';
import { startReceiver, until } from '../receiver.js';
import { afterTest, forSuite, forTest, opened, openForSuite, servers } from '../servers.js';
import { arrivedEvent, keptLog, startHarness, startWithWorker } from '../service.js';
import { openCli } from './cli.js';

const settings = { DRAIN_PER_SECOND: '20', MAX_IN_FLIGHT: '16' };
const tenMinutesMs = 600_000;

describe('operator status: us or them', () => {
  const h = openForSuite(() => startWithWorker({ ...settings, probeScheduleMs: [500] }));
  const cli = forSuite(() => openCli({ ...settings, KEY_PREFIX: h.db.prefix, TASK_QUEUE: h.taskQueue }));
  const receiver = forTest(() => startReceiver());

  /** Each verdict is of all clients: none of another test may be left. */
  afterEach(async () => {
    for (const client of await h.db.redis.smembers(h.db.global.clients)) await setPaused(h.db, client, true);
    await until('no attempt is under way', async () => {
      const clients = await h.db.redis.smembers(h.db.global.clients);
      const found = await Promise.all(clients.map((client) => getEndpoint(h.db, client)));
      return found.every(({ inFlight }) => inFlight === 0);
    });
    await h.db.redis.del(h.db.global.clients, h.db.global.owedClients);
  });

  it('nothing: nothing is owed', async () => {
    await h.newClient(receiver.url);
    const status = await cli.json('status');
    assert.deepEqual([status.verdict, status.workers, status.worst], ['fine', 1, []], status.because);
    assert.deepEqual([status.lag_seconds, status.owed, status.owed_clients], [0, 0, 0]);
    assert.match(
      (await cli.run(['status'])).stdout,
      /^All is well\. Nothing is overdue.*\n\n.+\ntemporal +answers in \d+ m?s\n(.+\n){2}$/,
    );
  });

  it('nothing, though some are paused: the desk says of how many it shows the first', async () => {
    for (let i = 0; i < 21; i++) await setPaused(h.db, await h.newClient(receiver.url), true);
    const { verdict, amiss, worst } = await cli.json('status');
    assert.deepEqual([verdict, amiss, worst.length], ['fine', 21, 20]);
    const door = await listen({ HOST: '127.0.0.1', PORT: 0 }, createDesk(h.apiDeps));
    const visitor = await personAt({ h, url: `http://127.0.0.1:${door.port}` }, 'look');
    assert.match(
      (await visitor.get('/desk')).html,
      /<strong>All is well.*<p>The worst 20 of 21 are shown\.</s,
    );
    await door.close(true);
  });

  describe('them', () => {
    const later = { status: 503, headers: { 'retry-after': '3600' } };
    for (const [what, situation, answer, count] of [
      ['a customer that is down', 'failing', 500, 6],
      ['a customer that answered 410', 'suspended', 410, 1],
      ['a customer that asked to wait, also with assets due long before', 'not_before', later, 1],
    ] as const) {
      it(what, async () => {
        receiver.answer = () => answer;
        const client = await h.newClient(receiver.url);
        await h.publishAll(client, 'vid', count);
        const reached = situation === 'not_before' ? 'active' : situation;
        await until(situation, async () => {
          const { state, failures } = await getEndpoint(h.db, client);
          return state === reached && failures > 0;
        });
        await age(client);
        const [status, worst] = await statusOf(client);
        assert.deepEqual([status.verdict, worst.situation], ['them', situation], status.because);
        assert.equal(status.because, `Endpoints: 1 ${situation.replace('_', ' ')} (owed ${count}).`);
        if (answer === later) assert.ok(Date.parse(worst.next_attempt_at) > Date.now() + 3_000_000);
      });
    }
  });

  describe('nobody, and the waiting clients are named', () => {
    it('a customer of whom the first attempts failed, and paused ones, in ten lines that say what to do', async () => {
      receiver.answer = () => 500;
      const client = await h.newClient(receiver.url);
      await h.publish({ client, asset: 'vid' });
      await until('it failed', async () => (await getEndpoint(h.db, client)).failures === 1);
      for (let i = 0; i < 3; i++) await setPaused(h.db, await h.newClient(receiver.url), true);
      const [status, worst] = await statusOf(client);
      assert.deepEqual([status.verdict, worst.situation], ['fine', 'retrying'], status.because);
      assert.match(status.because, /Clients: 1 retrying \(owed 1\), 3 paused \(owed 0\)\.$/);
      const lines = (await cli.run(['status'])).stdout.trimEnd().split('\n');
      assert.equal(lines.length, 10);
      assert.match(`${lines[8]}`, new RegExp(`^${client} +retrying .* nothing: it is tried again$`));
      assert.match(`${lines[9]}`, /^(\S+) +paused .* if it may go on: registration resume \1$/);
    });

    it('a customer that drains at its rate after an outage', async () => {
      const client = await startsToDrain(600);
      const [status, worst] = await statusOf(client);
      assert.deepEqual([status.verdict, worst.situation], ['fine', 'draining'], status.because);
      assert.match(status.because, /1 draining \(owed \d+\)/);
    });
  });

  describe('nobody, and what was lost stays visible', () => {
    it('videos that were given up, at a receiver that is healthy again, until they are dismissed', async () => {
      const client = await h.newClient(receiver.url);
      await setPaused(h.db, client, true);
      await h.publishAll(client, 'lost', 3);
      h.skip(31 * 86_400_000);
      await h.wake(client);
      await until('all failed', async () => (await getEndpoint(h.db, client)).failed === 3);
      h.skip(-31 * 86_400_000);
      // The step is another story, which status tells for a day.
      await witnessClocks(h.db, h.deps.log);
      await h.db.redis.hdel(h.db.global.clock, 'turned_at', 'back_ms');
      const paused = await statusOf(client);
      assert.deepEqual([paused[1].situation, paused[1].failed], ['paused', 3]);
      await setPaused(h.db, client, false);
      const [status, worst] = await statusOf(client);
      assert.deepEqual([status.verdict, status.failed], ['fine', 3]);
      assert.deepEqual([worst.situation, worst.failed, worst.owed], ['failed', 3, 0]);
      assert.equal(status.because, 'Nothing is overdue; 3 videos were given up.');
      const { stdout } = await cli.run(['status']);
      assert.match(stdout, /^Nothing is overdue; 3 videos were given up\./);
      assert.match(stdout, new RegExp(`^${client} +failed .* notification recover ${client} `, 'm'));
      const listed = await cli.json('client', 'list', '--state', 'failed');
      assert.deepEqual(
        listed.map((one: { client_token: string; failed: number }) => [one.client_token, one.failed]),
        [[client, 3]],
      );
      await cli.json('notification', 'dismiss', client, '--since', '90d', '--reason', 'sent by hand');
      const after = await cli.run(['status']);
      assert.match(after.stdout, /^All is well\./);
    });

    it('an endpoint that answered 410 and was resumed: its next video is the probe', async () => {
      receiver.answer = () => 410;
      const client = await h.newClient(receiver.url);
      const { id } = await h.publish({ client, asset: 'vid' });
      await until('it is suspended', async () => (await getEndpoint(h.db, client)).state === 'suspended');
      await cancelNotification(h.db, client, id);
      await resumeEndpoint(h.db, client);
      const [status, worst] = await statusOf(client);
      assert.deepEqual([status.verdict, worst.situation], ['them', 'failing']);
      assert.equal(
        worst.do,
        `tell its publisher; its next video is the probe, or: registration test ${client}`,
      );
    });
  });

  describe('us', () => {
    it('something could be sent and is not', async () => {
      const client = await oweUnattended(receiver.url);
      const [status, worst] = await statusOf(client);
      assert.deepEqual([status.verdict, worst.situation], ['us', 'late'], status.because);
      assert.match(status.because, new RegExp(`1 client is owed .* for 10 min \\(${client}\\)`));
      assert.ok(worst.overdue_seconds >= 600);
      assert.equal(status.lag_seconds, worst.overdue_seconds);
    });

    it('no worker asks Temporal for work', async () => {
      const status = await statusWith({ TASK_QUEUE: `${h.taskQueue}-of-nobody` });
      assert.deepEqual([status.verdict, status.workers], ['us', 0]);
      assert.match(status.because, /^No worker/);
    });

    it('no process with an API runs', async () => {
      const { prefix, json } = await openCli();
      const service = { KEY_PREFIX: prefix, TASK_QUEUE: prefix };
      opened(await startService(service, 'worker'));
      afterTest(() => h.temporal.schedule.getHandle(`sweep/${prefix}`).delete());
      const because = async (): Promise<string> => (await json('status')).because;
      assert.equal(await because(), 'No process with an API runs.');
      opened(await startHarness(service, 'api'));
      assert.equal(await because(), 'Nothing is overdue and no endpoint is failing.');
    });

    it('Temporal is unavailable, or its store is, in the first line', async () => {
      const ran = await cli.run(['status'], { env: { TEMPORAL_ADDRESS: '127.0.0.1:1' } });
      assert.match(
        ran.stdout,
        /^It is us\. Temporal does not answer \(ECONNREFUSED\)\. TEMPORAL_ADDRESS is 127\.0\.0\.1:1\./,
      );
      const proxy = opened(await startGrpcProxy(servers().temporalAddress));
      proxy.answer = (path) => (path.endsWith('/DescribeWorkflowExecution') ? grpc.unavailable : grpc.ok);
      const { stdout } = await cli.run(['status'], { env: { TEMPORAL_ADDRESS: proxy.address } });
      assert.match(stdout, /^It is us\. Temporal is not ready, its store is away or full, or/);
    });

    it('no sweep has completed for 3 minutes', async () => {
      h.skip(-240_000);
      await noteCounts(h.db, 'ended', { brokenClients: 0, steadyMs: 0 });
      h.skip(240_000);
      const status = await cli.json('status');
      assert.deepEqual([status.verdict, status.because], ['us', 'No sweep has completed for 4 min.']);
      await h.sweep();
      assert.equal((await cli.json('status')).verdict, 'fine');
    });

    it('a clock is wrong, for which no sweep and no worker is blamed', async () => {
      await h.sweep();
      await createSweepSchedule(h.temporal, h.taskQueue, h.deps.log).ensure();
      afterTest(() => h.temporal.schedule.getHandle(`sweep/${h.taskQueue}`).delete());
      const ahead = 'data:text/javascript,const{now}=Date;Date.now=()=>now()+36e5';
      const given = { env: { NODE_OPTIONS: `--import=${ahead}` }, alone: true };
      const says = /^It is us\. Redis' clock is 60 min behind this machine's\.(?!.* (sweep|worker) )/;
      assert.match((await cli.run(['status'], given)).stdout, says);
      const { stdout } = await cli.run(['doctor'], given);
      assert.match(stdout, /^warn +redis clock +Redis' clock is 60 min/m);
      for (const part of ['sweep', 'workers'])
        assert.match(stdout, new RegExp(`^ok +temporal ${part} `, 'm'));
    });

    it('a client has broken keys: it is named, and the others are counted', async () => {
      const [broken, other] = [await oweUnattended(receiver.url), await oweUnattended(receiver.url)];
      await setPaused(h.db, other, true);
      const { owed } = h.db.client(broken);
      await h.db.redis.rename(owed, `${owed}:aside`);
      await h.db.redis.set(owed, 'no hash');
      const [status, worst] = await statusOf(other);
      assert.equal(status.verdict, 'us');
      assert.equal(status.because, `The keys of some clients are broken: ${broken}.`);
      assert.deepEqual([worst.situation, status.owed], ['paused', 1]);
      await h.db.redis.rename(`${owed}:aside`, owed);
    });

    it('Redis is slow', async () => {
      const proxy = opened(await startProxy(servers().redisUrl));
      proxy.slow({ latencyMs: 400 });
      const status = await statusWith({ REDIS_URL: proxy.url });
      assert.equal(status.verdict, 'us');
      assert.match(status.because, /Redis takes \d+ ms to answer/);
    });

    it('attempts cannot be made: it names the cause, although nothing is late', async () => {
      const client = await h.newClient(receiver.url);
      await h.db.redis.del(h.db.client(client).signingSecrets);
      await h.publish({ client, asset: 'vid' });
      const status = await until('it is us', async () => {
        const now = await cli.json('status');
        return now.verdict === 'us' && now;
      });
      const says = /^Attempts of the last 3 minutes could not be made \(secrets: \d+\)\.$/;
      assert.match(status.because, says);
      assert.equal(status.worst.length, 0);
      // It may be over meanwhile.
      await h.db.redis.hincrby(h.db.global.calls(Math.floor(Date.now() / 60_000)), 'outside', 1);
      const { because } = await cli.json('status');
      assert.match(because, /^Nothing outside was reached during some of the last 3 minutes\. Attempts of /);
    });

    it('a process cannot start workflows, although Temporal serves this command, in log, status and metrics', async () => {
      const proxy = opened(await startGrpcProxy(servers().temporalAddress));
      const env = { TEMPORAL_ADDRESS: proxy.address, KEY_PREFIX: h.db.prefix, TASK_QUEUE: h.taskQueue };
      const { log, lines } = keptLog();
      const errors: unknown[] = [];
      const temporalAnswered = (call: string, _: number, error?: string) =>
        error && errors.push([call, error]);
      const api = opened(await startHarness(env, 'api', { log, metrics: { temporalAnswered } }));
      for (const [code, reason, says] of [
        [
          grpc.invalidArgument,
          'invalid',
          /could not be started .* \(INVALID_ARGUMENT\)\. .*search attribute/,
        ],
        [grpc.unimplemented, 'other', /could not be started .* Temporal refuses a call\./],
        // As RESOURCE_EXHAUSTED and the other refusals that pass.
        [grpc.unavailable, undefined, /did not take \d+ starts? of workflows in the last 3 minutes\./],
      ] as const) {
        lines.length = errors.length = 0;
        proxy.refuse(code, 'StartWorkflowExecution');
        await api.publish({ client: await h.newClient(receiver.url), asset: 'vid' });
        await until('it is named', async () => says.test((await cli.json('status')).because));
        if (reason === undefined) continue;
        const line = lines.find(({ msg }) => msg === 'a workflow cannot be started');
        assert.deepEqual([line?.reason, typeof line?.do], [reason, 'string']);
        assert.deepEqual(errors[0], ['start', reason]);
      }
    });

    it('a refused call whose name has several words', async () => {
      const { db, json } = await openCli();
      const minutes = countMinutes(db);
      afterTest(minutes.close);
      minutes.count('refused_calls:search attributes:invalid');
      const says = /did not take 1 call \(search attributes\) .* with another type/;
      await until('it is named', async () => says.test((await json('status')).because));
    });

    it('starts that were refused for good, once', async () => {
      const told = await describeRefusals({ 'refused_calls:start:invalid': 3, 'refused_starts:invalid': 3 });
      assert.match(told.join('\n'), /^3 workflows could not be started .*$/);
    });

    it('a worker that was killed is counted no longer', async () => {
      const { prefix } = h.db;
      afterTest(() => h.temporal.schedule.getHandle(`sweep/${h.taskQueue}`).delete());
      const worker = opened(await startService({ KEY_PREFIX: prefix, TASK_QUEUE: h.taskQueue }, 'worker'));
      const workers = async () => (await cli.json('status')).workers;
      await until('both ask for work', async () => (await workers()) === 2, 60_000);
      await worker.stop('SIGKILL');
      await until('one asks for work', async () => (await workers()) === 1, 60_000);
    }).timeout(180_000);
  });

  it('one slow answer of Redis is no problem', async () => {
    let asked = 0;
    const echo = async (said: string) => {
      if (asked++ === 0) await new Promise((resolve) => setTimeout(resolve, 600));
      return said;
    };
    const [server] = h.db.nodes.primaries();
    const slow = Object.assign(Object.create(server as object), { echo });
    const nodes = { ...h.db.nodes, primaries: () => [slow], ownerOf: () => slow };
    assert.deepEqual((await askRedis({ ...h.db, nodes })).amiss, []);
    assert.ok(asked > 1);
  });

  // biome-ignore lint/suspicious/noExplicitAny: what the command prints
  async function statusWith(env: NodeJS.ProcessEnv): Promise<any> {
    const ran = await cli.run(['status', '--json'], { env });
    assert.equal(ran.status, 0, ran.stderr);
    return JSON.parse(ran.stdout);
  }

  // biome-ignore lint/suspicious/noExplicitAny: what the command prints
  async function statusOf(client: string): Promise<[any, any]> {
    const status = await cli.json('status');
    const worst = status.worst.find((one: { client_token: string }) => one.client_token === client);
    return [status, worst ?? {}];
  }

  /** Owed for ten minutes, and unknown to the sweep. */
  async function oweUnattended(url: string | undefined): Promise<string> {
    const clientToken = await h.newClient(url);
    await claimAgain(h.db, clientToken, [{ ...arrivedEvent(clientToken, 'vid-1'), claim: 1 }]);
    await age(clientToken);
    return clientToken;
  }

  /** A customer that was down and is back: what it missed goes out at 20 a second. */
  async function startsToDrain(count: number): Promise<string> {
    receiver.answer = () => 500;
    const client = await h.newClient(receiver.url);
    await h.publishAll(client, 'vid', count);
    await until('it is failing', async () => (await getEndpoint(h.db, client)).state === 'failing');
    receiver.answer = () => 200;
    await until('it is back', async () => (await getEndpoint(h.db, client)).state === 'active');
    await age(client);
    return client;
  }

  /** As if all that happened to the client had happened ten minutes earlier. */
  async function age(client: string): Promise<void> {
    await h.db.redis.eval(
      `for _, name in ipairs({'due:live', 'due:backfill', 'owed-since'}) do
         for _, member in ipairs(redis.call('ZRANGE', KEYS[1] .. name, 0, -1)) do
           redis.call('ZINCRBY', KEYS[1] .. name, -ARGV[1], member)
         end
       end
       if redis.call('HEXISTS', KEYS[1] .. 'endpoint', 'recovered_at') == 1 then
         redis.call('HINCRBY', KEYS[1] .. 'endpoint', 'recovered_at', -ARGV[1])
       end`,
      1,
      h.db.client(client).base,
      tenMinutesMs,
    );
  }
});
