/**
 * The servers of one test run, started before the first test and stopped after the last one. Tests share them and keep
 * apart by a key prefix and a task queue of their own (`uniquePrefix`). Under `mocha --parallel` only mocha's own process starts servers; its workers, which run the tests,
 * read their addresses from TEST_SERVERS.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TestWorkflowEnvironment } from '@temporalio/testing';
import fc from 'fast-check';
import { timeSkippingServerBinary } from '../local/binaries.js';
import { startRedis } from '../local/redis.js';
import { startCluster } from '../local/redisCluster.js';
import { startTemporal } from '../local/temporal.js';
import { readConfig, redisOptions } from '../src/config.js';
import { createLogger } from '../src/log.js';
import { type Db, openDb, waitForRedis } from '../src/redis/connection/db.js';
import { searchAttributeTypes } from '../src/temporal/searchAttributes.js';
import { installRuntime } from '../src/worker.js';

// A failed property also shows the assertion that failed, in parallel runs too.
fc.configureGlobal({ includeErrorInReport: true });

interface Run {
  servers?: Servers;
  /** Stops them; absent where the servers stay. */
  stop?: () => Promise<void>;
  hasRuntime?: boolean;
  /** What ends what the files of this process share. Mocha's workers are killed instead. */
  endings?: (() => Promise<void>)[];
  /** What ends what the running test has opened. */
  ofTest: (() => unknown)[];
  folders: string[];
  timeSkipping?: Promise<TestWorkflowEnvironment>;
}

/** mocha may load this module once by `require` and once by `import`: both must see the same servers. */
const held = globalThis as typeof globalThis & { assetUpdateTestRun?: Run };
held.assetUpdateTestRun ??= { ofTest: [], folders: [] };
const run: Run = held.assetUpdateTestRun;

export interface Servers {
  redisUrl: string;
  temporalAddress: string;
  redisServerBinary: string;
  temporalBinary: string;
}

export function servers(): Servers {
  const { TEST_SERVERS } = process.env;
  if (TEST_SERVERS) run.servers ??= JSON.parse(TEST_SERVERS) as Servers;
  if (!run.servers) throw new Error('the servers run only under mocha (see .mocharc.json)');
  return run.servers;
}

/** The one key of SECRETS_KEY of services and commands: those of one prefix are one installation. */
export const secretsKey = Buffer.alloc(32, 7).toString('base64');

export const { settings } = redisOptions(readConfig({}));

/**
 * Returns how long a test's connection to this Redis waits for an answer: as long as the service's if the server is the
 * test's own, but 10 s for the one that all tests share, because a busy machine must fail no test.
 */
export function redisPatience(url = servers().redisUrl): { commandTimeoutMs?: number } {
  return url === servers().redisUrl ? { commandTimeoutMs: 10_000 } : {};
}

/** Connects a test to a Redis as the service does, without a log. @param given what differs */
export async function connectDb(
  url: string,
  prefix: string,
  given: Partial<Parameters<typeof openDb>[0]> = {},
): Promise<Db> {
  const log = createLogger('silent', 'test');
  const db = openDb({ url, prefix, settings: { ...settings }, log, ...redisPatience(url), ...given });
  await waitForRedis(db, 10_000);
  return db;
}

/** A store of which some commands are the test's. */
export const dbWith = (db: Db, commands: object): Db => ({
  ...db,
  redis: Object.assign(Object.create(db.redis), commands),
});

/**
 * Declares a test that watches or breaks the connection to one Redis. It is left out if the tests run on a cluster
 * (`TEST_REDIS=cluster`): test/faults/failover.test.ts breaks nodes of a cluster.
 */
export function itWithOneRedis(title: string, test: (this: Mocha.Context) => Promise<void>): void {
  if (!isCluster) it(title, test);
}

export function describeWithOneRedis(title: string, suite: (this: Mocha.Suite) => void): void {
  if (!isCluster) describe(title, suite);
}

const isCluster = process.env.TEST_REDIS === 'cluster';

/** Keeps a busy machine from taking a primary for dead, and a replica from using the disk at every write. */
export const quiet = { nodeTimeoutMs: 60_000, replicaArgs: ['--appendfsync', 'everysec'] };

/** Different in every test: a prefix of Redis keys, or the name of a task queue or client. */
export function uniquePrefix(): string {
  return `t${randomBytes(6).toString('hex')}-`;
}

/** A Temporal server whose clock jumps to the next timer, started at first use. @throws where there is none */
export function startTimeSkippingServer(): Promise<TestWorkflowEnvironment> {
  run.timeSkipping ??= timeSkippingServerBinary().then(async (path) => {
    const server = { executable: { type: 'existing-path' as const, path } };
    const env = await TestWorkflowEnvironment.createTimeSkipping({ server });
    // Without them a workflow's task fails each time that it sets one. This server adds them, but lists none.
    const namespace = env.namespace ?? 'default';
    await env.connection.operatorService.addSearchAttributes({
      namespace,
      searchAttributes: searchAttributeTypes,
    });
    return env;
  });
  return run.timeSkipping;
}

export async function mochaGlobalSetup(): Promise<void> {
  // No test's time limit is for a download; where there is none, the tests that need it fail and say why.
  const timeSkippingBinary = timeSkippingServerBinary().catch(() => undefined);
  if (!process.env.TEST_SERVERS) {
    const started = await startServers();
    run.stop = started.stop;
    process.env.TEST_SERVERS = JSON.stringify(started.servers);
  }
  await timeSkippingBinary;
  if (process.env.FAULT_STACK === '1')
    await (await import('./stack/productionServers.js')).temporalPrograms();
}

export async function mochaGlobalTeardown(): Promise<void> {
  for (const end of run.endings ?? []) await end();
  await run.stop?.();
}

/** Has this done after the last test of a run in one process. */
export function atEnd(end: () => Promise<void>): void {
  run.endings = [...(run.endings ?? []), end];
}

/** Makes a folder, which is removed after the last test of this process. */
export async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'asset-update-test-'));
  run.folders.push(folder);
  return folder;
}

/** Has this done after the running test, the last one first. */
export function afterTest(end: () => unknown): void {
  run.ofTest.push(end);
}

/** Closes what the running test has opened after it, the last one first. */
export const opened = openedInto(run.ofTest);

/** Declares the end of what the hooks of a suite open: it is closed after the suite, the last one first. */
export function useOpened(): typeof opened {
  const ends: (() => unknown)[] = [];
  after(() => endAll(ends));
  return openedInto(ends);
}

/** Declares that a suite makes something before its tests. @returns what stands for it in hooks and tests */
export const forSuite = <T extends object>(make: () => Promise<T> | T): T => standIn(before, make);

/** As `forSuite`, and closes it after the suite. */
export function openForSuite<T extends object>(make: () => Promise<T>): T {
  const one = forSuite(make);
  after(() => closeOf(one));
  return one;
}

/** Declares that something is made anew before each test. @returns what stands for the one of the running test */
export const forTest = <T extends object>(make: () => Promise<T> | T): T => standIn(beforeEach, make);

/** Whatever is done with it is done with what the hook made last: an object without private members of a class. */
function standIn<T extends object>(hook: typeof before, make: () => Promise<T> | T): T {
  let made = {} as T;
  hook(async () => {
    made = await make();
  });
  return new Proxy(made, {
    get: (_, name) => Reflect.get(made, name),
    set: (_, name, value) => Reflect.set(made, name, value),
    has: (_, name) => Reflect.has(made, name),
    ownKeys: () => Reflect.ownKeys(made),
    getOwnPropertyDescriptor: (_, name) => Reflect.getOwnPropertyDescriptor(made, name),
  });
}

function openedInto(ends: (() => unknown)[]) {
  return <T extends object>(one: T, end = closeOf as (one: T) => unknown): T => {
    ends.push(() => end(one));
    return one;
  };
}

function closeOf(one: { [name in 'close' | 'stop' | 'disconnect']?: () => unknown }): unknown {
  if (one.close) return one.close();
  return one.stop ? one.stop() : one.disconnect?.();
}

async function endAll(ends: (() => unknown)[]): Promise<void> {
  const ended = [];
  for (const end of ends.splice(0).reverse())
    ended.push(...(await Promise.allSettled([(async () => end())()])));
  for (const one of ended) if (one.status === 'rejected') throw one.reason;
}

/** Of each process that runs tests: once, or in a worker of `mocha --parallel` for each file. */
export const mochaHooks = {
  beforeAll(): void {
    if (!run.hasRuntime) installRuntime(createLogger(process.env.TEST_LOG ?? 'silent', 'test'));
    run.hasRuntime = true;
  },

  async afterEach(this: Mocha.Context): Promise<void> {
    this.timeout(180_000);
    await endAll(run.ofTest);
  },

  async afterAll(): Promise<void> {
    const { timeSkipping } = run;
    run.timeSkipping = undefined;
    await (await timeSkipping?.catch(() => undefined))?.teardown();
    for (const folder of run.folders.splice(0)) await rm(folder, { recursive: true, force: true });
  },
};

/** @param temporalArgs added to those of the service */
export async function startServers(temporalArgs: readonly string[] = []) {
  const dir = await mkdtemp(join(tmpdir(), 'asset-update-test-'));
  const [redis, temporal] = await Promise.all([
    isCluster ? startCluster({ dir: join(dir, 'redis'), ...quiet }) : startRedis({ dir: join(dir, 'redis') }),
    startTemporal({ dir: join(dir, 'temporal'), args: temporalArgs }),
  ]);
  return {
    servers: {
      redisUrl: redis.url,
      temporalAddress: temporal.address,
      redisServerBinary: redis.binary,
      temporalBinary: temporal.binary,
    },
    async stop() {
      await Promise.all([redis.stop(), temporal.stop()]);
      await rm(dir, { recursive: true, force: true });
    },
  };
}
