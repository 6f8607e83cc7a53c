/**
 * What each refusal of each call of Temporal stops, and whether /readyz, `status`, `doctor`, the log and the metrics say the same. The calls
 * are those that a service and its commands are seen to make. With VERDICT_CODES, the gRPC codes of the refusals, every scene is set.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Role } from '../../src/compose.js';
import { closeDb, type Db } from '../../src/redis/connection/db.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { tried } from '../families.js';
import { startGrpcProxy, status } from '../grpcProxy.js';
import { type Cli, openCli } from '../operator/cli.js';
import { beginService, type Service } from '../program.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { connectDb, opened, servers, uniquePrefix } from '../servers.js';
import { type Customer, newCustomer } from '../service.js';

const { VERDICT_CODES: given } = process.env;
const codes = (given ?? '14').split(',').map(Number);
/**
 * The guard of a worker, which reads the library's counters, and the sweep come every 15 s, the library repeats a call for 10 s, and what was
 * counted is written every 2 s. A poll that is refused for good is repeated for a minute.
 */
const patientMs = 90_000;
/** A process has asked by then whatever it asks while it runs. */
const askedWithinMs = 25_000;
/** Each refusal is waited for rather than worked on. */
const sideBySide = 5;
const settings = { RETRY_SCHEDULE_SECONDS: '0.5', ACCOUNT_RATE_PER_SECOND: '10000' };

type Proxy = Awaited<ReturnType<typeof startGrpcProxy>>;

interface Scene {
  /** Of the processes, and of the commands. */
  proxies: { service: Proxy; commands: Proxy };
  /** The processes whose calls go through the proxy. */
  services: Service[];
  /** Beside them. */
  others: Service[];
  cli: Cli;
  db: Db;
  customer: Customer;
  receiver: Receiver;
}

const isReady = async ({ url, adminUrl }: Service, role: Role) =>
  (await fetch(`${role === 'worker' ? adminUrl : url}/readyz`)).ok;

async function begin(env: Record<string, string>, role: Role): Promise<Service> {
  const service = opened(await beginService({ ...settings, ...env }, role), (one) => one.stop());
  await service.until('it is ready', () => isReady(service, role));
  return service;
}

async function setScene(roles: readonly Role[], isWithOther: boolean): Promise<Scene> {
  const proxies = {
    service: opened(await startGrpcProxy(servers().temporalAddress)),
    commands: opened(await startGrpcProxy(servers().temporalAddress)),
  };
  const prefix = uniquePrefix();
  const env = { KEY_PREFIX: prefix, TASK_QUEUE: `${prefix}queue`, TEMPORAL_ADDRESS: proxies.service.address };
  const others = isWithOther
    ? [await begin({ ...env, TEMPORAL_ADDRESS: servers().temporalAddress }, 'all')]
    : [];
  const services = [];
  for (const role of roles) services.push(await begin(env, role));
  const db = opened(await connectDb(servers().redisUrl, prefix), closeDb);
  const url = services[0]?.url ?? '';
  const customer = await newCustomer({ url, db }, ['enrichments', 'push_notifications']);
  const receiver = await startReceiver();
  await customer.register(receiver.url);
  const cli = await openCli({ ...env, TEMPORAL_ADDRESS: proxies.commands.address });
  return { proxies, services, others, cli, db, customer, receiver };
}

/** Does what publishers do: an event, and one that waits until a pause ends. @returns whether each arrived */
async function deliver({ db, customer, receiver }: Scene, withinMs: number): Promise<boolean> {
  const { client_token, call, forgetSends } = customer;
  const publish = async (): Promise<string> => {
    const event = { client_token, platform_id: randomUUID(), segments: ['a'] };
    const { status, body } = await call('POST', '/enrichments', event);
    assert.equal(status, 202, 'Temporal changes no answer');
    return String(body.notification_id);
  };
  await setPaused(db, client_token, true);
  const later = await publish();
  await setPaused(db, client_token, false);
  await forgetSends();
  await call('POST', '/push_notifications/resume');
  const ids = [await publish(), later];
  const arrived = () => {
    const seen = new Set(receiver.received.map(({ headers }) => headers['webhook-id']));
    return ids.every((id) => seen.has(id));
  };
  for (const end = Date.now() + withinMs; Date.now() < end && !arrived(); ) await sleep(50);
  return arrived();
}

/** What each says of itself now; `ended`: a process has ended, with what it said. */
async function look({ services, cli }: Scene) {
  const processes = await Promise.all(
    services.map(async ({ adminUrl, stdout }) => {
      const [ready, metrics] = await Promise.all(
        ['readyz', 'metrics'].map(async (page) => (await fetch(`${adminUrl}/${page}`)).text()),
      );
      return {
        isServed: JSON.parse(ready ?? '').temporal as boolean,
        isRefused: /^asset_update_temporal_refusing\{.*\} 1$/m.test(metrics ?? ''),
        log: stdout,
      };
    }),
  ).catch(() => []);
  const status = await cli.run(['status', '--json']);
  const doctor = await cli.run(['doctor', '--json']);
  const { verdict, because } =
    status.status === 0 ? JSON.parse(status.stdout) : { verdict: 'us', because: '' };
  const findings: { check: string; level: string; found: string }[] = JSON.parse(
    doctor.stdout || '{"findings":[]}',
  ).findings;
  const ofTemporal = findings.filter(({ check }) => check.startsWith('temporal'));
  return {
    isServed: processes.every((one) => one.isServed),
    isRefused: processes.some((one) => one.isRefused),
    says: processes.some(({ log }) => /"level":[45]0.*Temporal/.test(log)),
    isUs: verdict === 'us',
    because,
    fails: ofTemporal.some(({ level }) => level === 'fail'),
    calls: ofTemporal.map(({ found }) => found).join(' '),
  };
}

/** These are seen by queries where the list is refused for good (Temporal Cloud). */
const hasOtherWay = (method: string, code: number): boolean =>
  method === 'ListSearchAttributes' && [status.permissionDenied, status.unimplemented].includes(code);

/** Temporal's library makes them. */
const ofWorkers = /^(Poll|Respond)/;

const allSayNo = { isServed: false, isRefused: true, says: true, isUs: true, fails: true };
const allSayYes = { isServed: true, isRefused: false, says: false, isUs: false, fails: false };

/** @returns what is wrong */
async function tryRefusal(scene: Scene, method: string, code: number): Promise<string[]> {
  const { proxies, services } = scene;
  for (const service of services) service.stdout = '';
  const before = proxies.service.calls.length;
  const asked = () => proxies.service.calls.slice(before).filter((one) => one.method === method);
  const wasAsked = () => asked().length > 0;
  const hasEnded = async () =>
    (await Promise.race([...services.map(({ ended }) => ended), sleep(20, 'runs')])) !== 'runs';
  for (const proxy of Object.values(proxies)) proxy.refuse(code, method);
  const goesOn = await deliver(scene, 3000);
  // As whoever watches it does.
  const watch = () =>
    Promise.all(services.map(({ adminUrl }) => fetch(`${adminUrl}/readyz`).catch(() => undefined)));
  for (const end = Date.now() + askedWithinMs; Date.now() < end && !wasAsked(); await watch())
    await sleep(200);
  const isNeeded = wasAsked();
  // Without it no command and no next process gets a connection.
  const saysYes = method === 'GetSystemInfo' ? { isServed: true } : allSayYes;
  const expected = isNeeded && !hasOtherWay(method, code) ? allSayNo : saysYes;
  const differ: string[] = [];
  for (const end = Date.now() + patientMs; ; ) {
    // A worker that Temporal refuses for good ends its process, which says why.
    if (await hasEnded()) {
      const said = services.map(({ stdout, stderr }) => stdout + stderr).join('');
      const isNamed = said.includes(`refuses the worker (${method})`) || /at \S+ cannot serve/.test(said);
      return isNamed ? [] : [`${method} ${code}: it ended: ${said}`];
    }
    const found: Record<string, unknown> & { calls: string } = await look(scene);
    // Few refusals that delayed nothing, of what is not asked for again: counted for three minutes where they were more than one.
    const isPast = goesOn && isNeeded && Date.now() - (asked().at(-1)?.at ?? 0) > 25_000;
    const isCounted =
      asked().length > 1 && found.isUs && /^Temporal did not take .* in the last/.test(String(found.because));
    const past = { ...allSayYes, says: true, isUs: isCounted, fails: isCounted };
    const wrong = Object.entries(isPast ? past : expected).filter(([name, value]) => found[name] !== value);
    differ.splice(0, differ.length, ...wrong.map(([name]) => name));
    const isNamed = isPast || expected !== allSayNo || found.calls.includes(method);
    if (ofWorkers.test(method) && !isNamed) differ.push('nobody names the call');
    if (differ.length === 0 || Date.now() > end) {
      const all = JSON.stringify({ isNeeded, goesOn, ...found });
      // What nobody says must hold.
      if (!goesOn && expected !== allSayNo && !(await deliver(scene, 30_000)))
        differ.push('a publisher sees what nobody says');
      return differ.length === 0 ? [] : [`${method} ${code}: ${differ.join(', ')}: ${all}`];
    }
    await sleep(2500);
  }
}

async function mend(scene: Scene, roles: readonly Role[]): Promise<void> {
  for (const proxy of Object.values(scene.proxies)) proxy.refuse(status.ok);
  for (const [i, service] of scene.services.entries()) {
    if ((await Promise.race([service.ended, sleep(20, 'runs')])) === 'runs') continue;
    const { prefix, taskQueue, url, adminUrl } = service;
    const env = {
      KEY_PREFIX: prefix,
      TASK_QUEUE: taskQueue,
      TEMPORAL_ADDRESS: scene.proxies.service.address,
    };
    const ports = { PORT: new URL(url).port, ADMIN_PORT: new URL(adminUrl).port };
    scene.services[i] = await begin({ ...env, ...ports }, roles[i] as Role);
  }
  await until(
    'all is well again',
    async () => {
      const counted = await scene.db.redis.keys(`${scene.db.prefix}calls:*`);
      if (counted.length > 0) await scene.db.redis.del(...counted);
      const { isServed, isUs, fails } = await look(scene);
      return isServed && !isUs && !fails && (await deliver(scene, 30_000));
    },
    120_000,
  );
}

describe('While Temporal refuses', () => {
  const scenes: [what: string, roles: readonly Role[], isWithOther: boolean][] = [
    ['one process', ['all'], false],
    ['roles apart', ['api', 'worker'], false],
    ['one process of two', ['all'], true],
  ];
  for (const code of codes)
    for (const [what, roles, isWithOther] of given ? scenes : scenes.slice(0, 1))
      it(`each call of ${what} (gRPC ${code}), no verdict contradicts what a publisher sees`, async () => {
        const start = async () => {
          const scene = await setScene(roles, isWithOther);
          await mend(scene, roles);
          return scene;
        };
        const first = await start();
        const calls = Object.values(first.proxies).flatMap((proxy) => proxy.calls);
        const made = [...new Set(calls.map(({ method }) => method))].sort();
        assert.ok(made.length >= 10, made.join());
        const methods = tried(made, 3);
        const wrong: string[] = [];
        const scenes = Math.min(sideBySide, Math.ceil(methods.length / 4));
        const others = Array.from({ length: scenes - 1 }, start);
        await Promise.all(
          [Promise.resolve(first), ...others].map(async (starting) => {
            const scene = await starting;
            for (let method = methods.pop(); method !== undefined; method = methods.pop()) {
              wrong.push(...(await tryRefusal(scene, method, code)));
              await mend(scene, roles);
            }
          }),
        );
        assert.deepEqual(wrong, []);
      }).timeout(15 * 60_000);

  for (const code of codes)
    it(`a start each call that it makes (gRPC ${code}), the process says so or ends, and goes on once Temporal does not`, async () => {
      const calls = 'GetSystemInfo DescribeNamespace ListSearchAttributes DescribeSchedule CreateSchedule';
      const all = [...calls.split(' '), 'PollWorkflowTaskQueue', 'PollActivityTaskQueue'];
      const tries = tried(all, 4).map(async (method) => {
        if (hasOtherWay(method, code)) return;
        const proxy = opened(await startGrpcProxy(servers().temporalAddress));
        proxy.refuse(code, method);
        const env = { ...settings, TEMPORAL_ADDRESS: proxy.address };
        const service = opened(await beginService(env, 'all'), (one) => one.stop());
        const isServed = async () =>
          ((await (await fetch(`${service.url}/readyz`)).json()) as { temporal: boolean }).temporal;
        const says =
          /Temporal at \S+ (cannot serve|refuses the worker)|waiting for Temporal|Temporal does not take a call/;
        const saidSo = async () => {
          await isServed().catch(() => false);
          return says.test(service.said());
        };
        await until(`${method}: it says so`, saidSo, patientMs);
        proxy.refuse(status.ok);
        const end = Promise.race([service.ended, service.until(`${method}: it is served`, isServed)]);
        await end.catch(() => undefined);
        if ((await Promise.race([service.ended, sleep(20, 'runs')])) === 'runs')
          // A call that was refused before may still end.
          return service.until(`${method}: it goes on`, isServed);
        assert.match(service.stderr, /Temporal at \S+ (cannot serve|refuses the worker)/, method);
        assert.equal(await service.ended, 1, method);
      });
      await Promise.all(tries);
    }).timeout(5 * 60_000);
});
