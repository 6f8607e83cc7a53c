/**
 * Records what the service writes while a fault is made: `npx tsx test/deploy/recordLife.ts NAME...`, or without a name all lives, ten
 * side by side, which takes a core, and an hour. Each is a file of test/deploy/life: `up`, and the series of two processes that the rules
 * read, scraped every 15 s, in the notation of promtool. Times of the epoch are written as if the recording had begun at 0. `npm run build`
 * comes before. Stages that share a disk make Redis slow: let `.data` lead into memory.
 */
import { readFileSync } from 'node:fs';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { freePort } from '../../local/ports.js';
import { startRedis } from '../../local/redis.js';
import { startTemporal } from '../../local/temporal.js';
import type { Role } from '../../src/compose.js';
import { projectDir } from '../../src/operator/npmStart.js';
import { clientKeys } from '../../src/redis/connection/keys.js';
import { beginService, type Service } from '../program.js';
import { startProxy } from '../proxy.js';
import { newPublisher } from '../publisher.js';
import { type Receiver, startReceiver, succeeds, until } from '../receiver.js';
import { callApi } from '../service.js';
import { everySeconds, fileOf } from './life.js';
import { lives } from './lives.js';

export type Stage = Awaited<ReturnType<typeof setStage>>;
type Instance = 'a' | 'b';

/** Sets up Redis behind a proxy, Temporal, two processes, and three customers with an event each two seconds. */
async function setStage(name: string) {
  const parent = join(projectDir, '.data');
  await mkdir(parent, { recursive: true });
  const dir = await mkdtemp(join(parent, 'life-'));
  // A copy: a build that is made meanwhile changes nothing here.
  await cp(join(projectDir, 'dist'), join(dir, 'dist'), { recursive: true });
  await symlink(join(projectDir, 'node_modules'), join(dir, 'node_modules'));
  await cp(join(projectDir, 'package.json'), join(dir, 'package.json'));
  const [redisPort, temporalPort] = [await freePort(), await freePort()];
  const startOwnRedis = () => startRedis({ dir: join(dir, 'redis'), port: redisPort });
  const startOwnTemporal = () => startTemporal({ dir: join(dir, 'temporal'), port: temporalPort });
  let redis = await startOwnRedis();
  let temporal = await startOwnTemporal();
  const proxy = await startProxy(redis.url);
  process.env.TEST_SERVERS = JSON.stringify({ redisUrl: redis.url, temporalAddress: temporal.address });
  const life = lives[name];
  if (life === undefined) throw new Error(`there is no life ${name}: ${Object.keys(lives).join(', ')}`);
  const env: Record<string, string> = {
    REDIS_URL: `redis://127.0.0.1:${proxy.port}`,
    TEMPORAL_ADDRESS: temporal.address,
    KEY_PREFIX: 'life:',
  };
  const roles: Record<Instance, Role> = life.roles ?? { a: 'all', b: 'all' };
  const processes = new Map<Instance, Service>();
  const start = async (one: Instance, more: Record<string, string> = {}) => {
    const service = await beginService({ ...env, ...more }, roles[one], { folder: dir });
    const at = roles[one] === 'worker' ? service.adminUrl : service.url;
    const isReady = () =>
      fetch(`${at}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      );
    await until(`${name}: ${one} is ready: ${service.said()}`, isReady, 300_000);
    env.SECRETS_KEY ??= `k1:${service.secretsKey}`;
    Object.assign(ports[one], {
      PORT: new URL(service.url).port,
      ADMIN_PORT: new URL(service.adminUrl).port,
    });
    processes.set(one, service);
  };
  const ports: Record<Instance, Record<string, string>> = { a: {}, b: {} };
  await start('a');
  await start('b');
  const [api] = processes.values() as Iterator<Service> & Iterable<Service>;
  const publisher = await newPublisher({ url: (api as Service).url, prefix: 'life:' }, redis.url);
  const receivers: Receiver[] = [];
  const clients: string[] = [];
  const adminUrl = (one: Instance) => `http://127.0.0.1:${ports[one].ADMIN_PORT}`;
  const stage = {
    dir,
    life,
    publisher,
    receivers,
    clients,
    proxy,
    redisUrl: redis.url,
    temporalAddress: temporal.address,
    adminUrl,
    apiUrl: (api as Service).url,
    ports,
    start: (one: Instance, more: Record<string, string> = {}) => start(one, { ...ports[one], ...more }),
    processOf: (one: Instance) => processes.get(one) as Service,
    direct: new Redis(redis.url, { retryStrategy: () => 500 }).on('error', () => undefined),
    keysOf: (client: string) => clientKeys('life:', client),
    async killRedis() {
      process.kill(redis.pid, 'SIGKILL');
      await redis.child.exited;
    },
    startRedis: async () => {
      redis = await startOwnRedis();
    },
    async killTemporal() {
      process.kill(temporal.pid, 'SIGKILL');
      await temporal.child.exited;
    },
    startTemporal: async () => {
      temporal = await startOwnTemporal();
    },
    /** Closes a receiver, or opens it again at the same port. */
    async closeReceiver(i: number) {
      await receivers[i]?.close();
    },
    async openReceiver(i: number) {
      receivers[i] = await startReceiver(Number(new URL(receivers[i]?.url ?? '').port));
    },
    /** So many events each second for each client. */
    eventsPerSecond: 0.5,
    /** A process is scraped at every so-manieth scrape. */
    scrapedEach: { a: 1, b: 1 },
    endings: [] as (() => unknown)[],
    async stop() {
      for (const end of stage.endings) await end();
      for (const service of processes.values()) await service.stop();
      stage.direct.disconnect();
      publisher.db.redis.disconnect();
      await Promise.all([redis.stop(), temporal.stop(), proxy.close()]);
      await rm(dir, { recursive: true, force: true });
    },
  };
  for (let i = 0; i < 3; i++) {
    const receiver = await startReceiver();
    receivers.push(receiver);
    const client = await publisher.newClient();
    clients.push(client);
    await until('its URL is registered', () => succeeds(publisher.register(client, receiver.url)), 60_000);
  }
  return stage;
}

const names = process.argv.slice(2);
let assets = 0;

/** Sends each customer's events, until told to end. */
async function publish(stage: Stage, ended: () => boolean): Promise<void> {
  while (!ended()) {
    for (const client_token of stage.clients) {
      const platform_id = `vid-${assets++}`;
      const event = { client_token, platform_id, segments: ['iab:17'] };
      void callApi(stage.publisher.token, 'POST', `${stage.apiUrl}/enrichments`, event).catch(
        () => undefined,
      );
    }
    await pause(1000 / stage.eventsPerSecond);
  }
}

/** What the rules ask for: a metric, and what its labels must be. */
const asked = [
  ...readFileSync(join(projectDir, 'deploy/prometheus/alerts.yml'), 'utf8').matchAll(
    /\b((?:asset_update|process|nodejs)_\w+)(?:\{(.*?)\})?/g,
  ),
].map(([, metric, matchers = '']) => ({
  metric,
  labels: [...matchers.matchAll(/(\w+)(=|!~|=~)"([^"]*)"/g)].filter(([, label]) => label !== 'job'),
}));

/** Whether a rule reads a series. */
function isRead(name: string, labels: string): boolean {
  const labelOf = (label = '') => new RegExp(`\\b${label}="([^"]*)"`).exec(labels)?.[1] ?? '';
  return asked.some(
    ({ metric, labels: wanted }) =>
      metric === name &&
      wanted.every(
        ([, label, how, value]) => new RegExp(`^(${value})$`).test(labelOf(label)) === (how !== '!~'),
      ),
  );
}

/** Whether a rule misses nothing without a series: one of several that stayed 0, or a time that never comes. */
const saysNothing = (series: string, values: readonly string[]): boolean =>
  values.every((value) => value === '+Inf' || isNone(value)) ||
  (/\b(error|reason|cause|status|result)=/.test(series) &&
    values.every((value) => value === '0' || isNone(value)));

/** Of a scrape that lacked the series; of a moment without a scrape. */
const [none, notScraped] = ['_', '.'];
const isNone = (value: string | undefined): boolean => value === none || value === notScraped;

const ofTheEpoch = /_timestamp_seconds|clock_seconds|process_start_time/;

/** Scrapes both processes, every 15 s. */
async function scrape(stage: Stage, seconds: number, beganMs: number): Promise<Map<string, string[]>> {
  const series = new Map<string, string[]>();
  const steps = Math.floor(seconds / everySeconds) + 1;
  for (let step = 0; step < steps; step++) {
    await pause(Math.max(0, beganMs + step * everySeconds * 1000 - Date.now()));
    for (const values of series.values()) values.push(notScraped);
    await Promise.all(
      (['a', 'b'] as const)
        .filter((instance) => step % stage.scrapedEach[instance] === 0)
        .map((instance) => scrapeOne(stage, instance, { step, beganMs, series })),
    );
  }
  return series;
}

async function scrapeOne(
  stage: Stage,
  instance: Instance,
  { step, beganMs, series }: { step: number; beganMs: number; series: Map<string, string[]> },
): Promise<void> {
  const signal = AbortSignal.timeout(10_000);
  const answer = await fetch(`${stage.adminUrl(instance)}/metrics`, { signal }).catch(() => undefined);
  const text = answer?.ok ? await answer.text().catch(() => undefined) : undefined;
  const note = (name: string, value: string) => {
    const values = series.get(name) ?? Array<string>(step).fill(none);
    values[step] = value;
    series.set(name, values);
  };
  const own = `instance="${instance}",job="asset-update"`;
  for (const [one, values] of series) if (one.includes(own)) values[step] = none;
  note(`up{${own}}`, text === undefined ? '0' : '1');
  for (const line of text?.split('\n') ?? []) {
    const [, name = '', labels = '', value = ''] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    if (!isRead(name, labels)) continue;
    const number = Number(value);
    const shown = ofTheEpoch.test(name) && Number.isFinite(number) ? number - beganMs / 1000 : number;
    note(
      `${name}{${labels === '' ? own : `${labels},${own}`}}`,
      Number.isFinite(shown) ? String(Number(shown.toFixed(4))) : value,
    );
  }
}

/** Writes values in the notation of promtool: a value, and how often the same or none follows. A series that is gone is stale at once. */
function pack(scraped: readonly string[]): string {
  const values = scraped.map((value, i) => {
    if (value !== none) return value === notScraped ? none : value;
    const last = scraped.slice(0, i).findLast((one) => one !== notScraped);
    return isNone(last ?? none) ? none : 'stale';
  });
  const packed: string[] = [];
  for (let at = 0; at < values.length; ) {
    const value = values[at] as string;
    let times = 1;
    while (values[at + times] === value) times++;
    if (value === none) packed.push(`_x${times}`);
    else packed.push(times > 1 ? `${value}x${times - 1}` : value);
    at += times;
  }
  return packed.join(' ');
}

/** Sets a stage. @returns what resolves when the life there is over */
async function begin(name: string): Promise<{ life: Promise<void> }> {
  const stage = await setStage(name);
  return { life: record(name, stage).finally(() => stage.stop()) };
}

async function record(name: string, stage: Stage): Promise<void> {
  let isOver = false;
  const publishing = publish(stage, () => isOver);
  try {
    // The first sweeps have counted, and the first attempts are made.
    await pause(70_000);
    const beganMs = Date.now();
    console.info(`${new Date().toISOString()} ${name}: begins`);
    const acting = stage.life.act(stage, (second) =>
      pause(Math.max(0, beganMs + second * 1000 - Date.now())),
    );
    const series = await scrape(stage, stage.life.seconds, beganMs);
    await acting;
    const read = [...series].filter(([one, values]) => !saysNothing(one, values)).sort();
    const packed = Object.fromEntries(read.map(([one, values]) => [one, pack(values)]));
    await writeFile(join(import.meta.dirname, `life/${fileOf(name)}`), `${JSON.stringify(packed)}\n`);
    console.info(`${name}: ${read.length} series`);
  } finally {
    isOver = true;
    await publishing;
  }
}

const sideBySide = 10;
const wanted = names.length > 0 ? names : Object.keys(lives);
while (wanted.length > 0) {
  const begun: Promise<unknown>[] = [];
  // One stage after the other: the start of a process takes a core for seconds.
  for (const name of wanted.splice(0, sideBySide)) {
    const failed = (err: unknown) => console.error(`${name}:`, err);
    const { life } = (await begin(name).catch(failed)) ?? {};
    begun.push(life?.catch(failed) ?? Promise.resolve());
  }
  await Promise.all(begun);
}
process.exit();
