import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import type { WorkerDeploymentVersion } from '@temporalio/common';
import type { Logger } from '../log.js';
import { grpcCodeOf, isNotFound } from './unavailable.js';
import { isSame, nameOf, readVersionedQueue, type VersionedQueue } from './versionedQueue.js';

/** Knows which version of the workers gets new workflows. */
export interface CurrentVersion {
  /** Whether it is the version of this process, as last seen. */
  isOurs(): boolean;
  /** Looks at once, then repeatedly until `close`. */
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

/** After a rollback, the version that is no longer current stops eager starts within this time. */
const usuallyEveryMs = 15_000;
/** The interval until the server knows the version, which it learns from a worker's first call. */
const firstLooksEveryMs = 500;
/** gRPC's FAILED_PRECONDITION */
const failedPrecondition = 9;

/**
 * Makes this process's version current if no operator ever chose one and no unversioned worker exists: else all tasks would
 * wait. In every other case the choice is the operator's, and is only logged.
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
    else log.error({ version: ours, current }, 'no worker of the current version polls: tasks wait');
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
  /** No version was chosen before: ours is current now. */
  | { kind: 'taken' }
  /** `workers`: how many of that version polled lately */
  | { kind: 'other'; current: WorkerDeploymentVersion; workers: number }
  /** Tasks go to unversioned workers: an operator chose that, or such workers exist. */
  | { kind: 'none' };

async function look({ temporal, taskQueue, version }: Options): Promise<Found> {
  const queue = await readVersionedQueue(temporal, taskQueue, 'workflow');
  const { current } = queue;
  if (isSame(current, version)) return { kind: 'ours' };
  if (current !== undefined) return { kind: 'other', current, workers: workersOf(queue, current) };
  if (workersOf(queue, undefined) > 0) return { kind: 'none' };
  // The server refuses a version whose workers have not polled yet.
  if (workersOf(queue, version) === 0) return { kind: 'unknown' };
  // Asked last: the server runs a workflow to answer.
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
    if (isNotFound(err)) return undefined;
    throw err;
  }
}

/** @param conflictToken from the description: if two processes do this at the same time, Temporal refuses one */
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
    if (grpcCodeOf(err) === failedPrecondition) return false;
    throw err;
  }
}

function workersOf({ workers }: VersionedQueue, version: WorkerDeploymentVersion | undefined): number {
  return workers.filter((worker) => isSame(worker.version, version)).length;
}
