import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import type { WorkerDeploymentVersion } from '@temporalio/common';
import type { Logger } from '../log.js';
import { isSame, nameOf, readVersionedQueue, type VersionedQueue } from './versionedQueue.js';

/** Knows which version of the workers gets new workflows. */
export interface CurrentVersion {
  /** Whether it is the version of this process, as last seen. */
  isOurs(): boolean;
  /** Looks until `close`: at once, then again and again. */
  watch(): void;
  close(): Promise<void>;
}

interface Options {
  temporal: Client;
  taskQueue: string;
  version: WorkerDeploymentVersion;
  log: Logger;
  lookEveryMs?: number;
}

/** A rollback ends eager starts of the version that is no longer current within this time. */
const usuallyEveryMs = 15_000;
/** Until the server knows the version: a worker's first call makes it known. */
const firstLooksEveryMs = 500;
/** gRPC's NOT_FOUND */
const notFound = 5;
/** gRPC's FAILED_PRECONDITION */
const failedPrecondition = 9;

/**
 * Makes this process's version current where nobody ever chose one and no unversioned worker is there: tasks would wait
 * for workers that nobody meant to start. Every other choice is an operator's, and is only logged.
 */
export function createCurrentVersion(options: Options): CurrentVersion {
  const { version, log, lookEveryMs = usuallyEveryMs } = options;
  const closing = new AbortController();
  let watching: Promise<void> | undefined;
  let found: Found = { kind: 'unknown' };
  let logged: string | undefined;

  async function watch(): Promise<void> {
    while (!closing.signal.aborted) {
      try {
        found = await look(options);
        tell(found);
      } catch (err) {
        if (logged !== 'failed') log.warn({ err }, 'the current version of the workers could not be read');
        logged = 'failed';
      }
      const pauseMs = found.kind === 'unknown' ? firstLooksEveryMs : lookEveryMs;
      await sleep(pauseMs, undefined, { signal: closing.signal }).catch(() => undefined);
    }
  }

  /** Logs what has changed since the last look. */
  function tell(now: Found): void {
    const { kind } = now;
    const current = kind === 'other' ? nameOf(now.current) : undefined;
    const state = kind === 'other' ? `${current} ${now.workers > 0}` : kind;
    if (state === logged) return;
    logged = state;
    const ours = nameOf(version);
    if (kind === 'taken') log.info({ version: ours }, 'no version was current: this one is now');
    if (kind === 'ours') log.info({ version: ours }, 'this version is current');
    if (kind === 'none')
      log.warn({ version: ours }, 'no version is current: unversioned workers get all tasks');
    if (kind !== 'other') return;
    if (now.workers > 0) log.info({ version: ours, current }, 'another version is current');
    else log.error({ version: ours, current }, 'no worker of the current version asks for tasks: they wait');
  }

  return {
    isOurs: () => found.kind === 'ours' || found.kind === 'taken',
    watch() {
      watching ??= watch();
    },
    async close() {
      closing.abort();
      await watching;
    },
  };
}

type Found =
  /** The server does not know the version yet. */
  | { kind: 'unknown' }
  | { kind: 'ours' }
  /** Nobody had chosen one: it is ours now. */
  | { kind: 'taken' }
  /** @param workers that asked for tasks of it lately */
  | { kind: 'other'; current: WorkerDeploymentVersion; workers: number }
  /** Tasks go to workers that are not versioned: by somebody's choice, or because there are some. */
  | { kind: 'none' };

async function look({ temporal, taskQueue, version }: Options): Promise<Found> {
  const queue = await readVersionedQueue(temporal, taskQueue, 'workflow');
  const { current } = queue;
  if (isSame(current, version)) return { kind: 'ours' };
  if (current !== undefined) return { kind: 'other', current, workers: workersOf(queue, current) };
  if (workersOf(queue, undefined) > 0) return { kind: 'none' };
  // Not before its own workers have asked: the server refuses a version without any.
  if (workersOf(queue, version) === 0) return { kind: 'unknown' };
  // Asked last: the server answers it seldom, by a workflow of its own.
  const deployment = await describe(temporal, version.deploymentName);
  if (deployment === undefined) return { kind: 'unknown' };
  const routing = deployment.workerDeploymentInfo?.routingConfig;
  if (routing?.currentVersionChangedTime || routing?.rampingDeploymentVersion) return { kind: 'none' };
  return (await take(temporal, version, deployment.conflictToken)) ? { kind: 'taken' } : { kind: 'unknown' };
}

async function describe({ workflowService, options }: Client, deploymentName: string) {
  try {
    return await workflowService.describeWorkerDeployment({ namespace: options.namespace, deploymentName });
  } catch (err) {
    if ((err as { code?: unknown }).code === notFound) return undefined;
    throw err;
  }
}

/** @param conflictToken of what was seen: of two processes that take at the same time one is refused */
async function take(
  temporal: Client,
  version: WorkerDeploymentVersion,
  conflictToken: Uint8Array,
): Promise<boolean> {
  const { namespace } = temporal.options;
  try {
    await temporal.workflowService.setWorkerDeploymentCurrentVersion({
      namespace,
      ...version,
      conflictToken,
    });
    return true;
  } catch (err) {
    if ((err as { code?: unknown }).code === failedPrecondition) return false;
    throw err;
  }
}

function workersOf({ workers }: VersionedQueue, version: WorkerDeploymentVersion | undefined): number {
  return workers.filter((worker) => isSame(worker.version, version)).length;
}
