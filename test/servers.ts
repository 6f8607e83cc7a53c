/**
 * The servers of one test run, started before the first test and stopped after the last one, or those of
 * `npm run test:watch`, which stay. Tests share them and keep apart by a key prefix and a task queue of their own
 * (`uniquePrefix`).
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TestWorkflowEnvironment } from '@temporalio/testing';
import { timeSkippingServerBinary } from '../local/binaries.js';
import { startRedis } from '../local/redis.js';
import { startCluster } from '../local/redisCluster.js';
import { startTemporal } from '../local/temporal.js';
import { createLogger } from '../src/log.js';
import { installRuntime } from '../src/worker.js';

interface Run {
  servers?: Servers;
  /** Stops them; absent where the servers stay. */
  stop?: () => Promise<void>;
  timeSkippingBinary?: Promise<string>;
  timeSkipping?: Promise<TestWorkflowEnvironment>;
}

/** mocha may load this module once by `require` and once by `import`: both must see the same servers. */
const held = globalThis as typeof globalThis & { assetUpdateTestRun?: Run };
held.assetUpdateTestRun ??= {};
const run: Run = held.assetUpdateTestRun;

export interface Servers {
  redisUrl: string;
  temporalAddress: string;
  redisServerBinary: string;
  temporalBinary: string;
}

export function servers(): Servers {
  if (!run.servers) throw new Error('the servers run only under mocha (see .mocharc.json)');
  return run.servers;
}

/**
 * Declares a test that looks at the line to one Redis, or breaks it: not there where the tests run on a cluster
 * (`TEST_REDIS=cluster`), whose nodes test/faults/failover.test.ts breaks.
 */
export function itWithOneRedis(title: string, test: (this: Mocha.Context) => Promise<void>): void {
  if (!isCluster) it(title, test);
}

/** Declares a suite of such tests. */
export function describeWithOneRedis(title: string, suite: (this: Mocha.Suite) => void): void {
  if (!isCluster) describe(title, suite);
}

const isCluster = process.env.TEST_REDIS === 'cluster';

/** On a busy machine no primary is taken for dead, and no replica takes the disk from its primary with every write. */
const quiet = { nodeTimeoutMs: 60_000, replicaArgs: ['--appendfsync', 'everysec'] };

/** Different in every test: a prefix of Redis keys, or the name of a task queue or client. */
export function uniquePrefix(): string {
  return `t${randomBytes(6).toString('hex')}-`;
}

/** A Temporal server whose clock jumps to the next timer: one for the run, started at first use. @throws where there is none */
export function startTimeSkippingServer(): Promise<TestWorkflowEnvironment> {
  if (!run.timeSkippingBinary) throw new Error('the servers run only under mocha (see .mocharc.json)');
  run.timeSkipping ??= run.timeSkippingBinary.then((path) =>
    TestWorkflowEnvironment.createTimeSkipping({ server: { executable: { type: 'existing-path', path } } }),
  );
  return run.timeSkipping;
}

export async function mochaGlobalSetup(): Promise<void> {
  installRuntime(createLogger(process.env.TEST_LOG ?? 'silent', 'test'));
  run.timeSkippingBinary = timeSkippingServerBinary();
  const staying = process.env.TEST_SERVERS;
  if (staying) run.servers = JSON.parse(staying) as Servers;
  else Object.assign(run, await startServers());
  // No test's time limit is for a download; where there is none, the tests that need it fail and say why.
  await run.timeSkippingBinary.catch(() => undefined);
}

export async function mochaGlobalTeardown(): Promise<void> {
  await (await run.timeSkipping?.catch(() => undefined))?.teardown();
  await run.stop?.();
  endEvenWithOpenHandles();
}

export async function startServers(): Promise<{ servers: Servers; stop: () => Promise<void> }> {
  const dir = await mkdtemp(join(tmpdir(), 'asset-update-test-'));
  const [redis, temporal] = await Promise.all([
    isCluster ? startCluster({ dir: join(dir, 'redis'), ...quiet }) : startRedis({ dir: join(dir, 'redis') }),
    startTemporal({ dir: join(dir, 'temporal') }),
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

/** What a test left open is worth knowing and must not hold up the run. */
function endEvenWithOpenHandles(): void {
  setTimeout(() => {
    console.error(`open handles 10 s after the last test: ${process.getActiveResourcesInfo().join(', ')}`);
    process.exit();
  }, 10_000).unref();
}
