import type { Client } from '@temporalio/client';
import type { WorkerDeploymentVersion } from '@temporalio/common';

/** The routing of a task queue, and its workers. */
export interface VersionedQueue {
  /** Undefined: tasks go to workers that are not versioned. */
  current?: WorkerDeploymentVersion;
  ramping?: WorkerDeploymentVersion & { percentage: number };
  /** Workers that polled lately. One without a version is not versioned. */
  workers: { identity: string; version?: WorkerDeploymentVersion }[];
}

/** A worker polls again after a minute at most. */
const askedWithinMs = 90_000;
/** `temporal.api.enums.v1.WorkerVersioningMode` */
const versioned = 2;
const taskTypes = { workflow: 1, activity: 2 };

/** Reads the routing of a queue and its workers. @throws errors of Temporal */
export async function readVersionedQueue(
  { workflowService, options }: Client,
  name: string,
  type: keyof typeof taskTypes,
): Promise<VersionedQueue> {
  const { versioningInfo, pollers } = await workflowService.describeTaskQueue({
    namespace: options.namespace,
    taskQueue: { name },
    taskQueueType: taskTypes[type],
  });
  const current = versionOf(versioningInfo?.currentDeploymentVersion);
  const ramping = versionOf(versioningInfo?.rampingDeploymentVersion);
  const since = Date.now() - askedWithinMs;
  const workers = new Map<string, VersionedQueue['workers'][number]>();
  for (const { identity, lastAccessTime, deploymentOptions } of pollers ?? []) {
    if (Number(lastAccessTime?.seconds ?? 0) * 1000 < since) continue;
    const isVersioned = deploymentOptions?.workerVersioningMode === versioned;
    const version = isVersioned ? versionOf(deploymentOptions) : undefined;
    const worker = { identity: identity ?? '', ...(version && { version }) };
    workers.set(`${worker.identity} ${version && nameOf(version)}`, worker);
  }
  return {
    ...(current && { current }),
    ...(ramping && { ramping: { ...ramping, percentage: versioningInfo?.rampingVersionPercentage ?? 0 } }),
    workers: [...workers.values()],
  };
}

/** `<deployment>:<build id>`, as Temporal writes it in its UI and its search attributes. */
export function nameOf({ deploymentName, buildId }: WorkerDeploymentVersion): string {
  return `${deploymentName}:${buildId}`;
}

export function isSame(a?: WorkerDeploymentVersion, b?: WorkerDeploymentVersion): boolean {
  return a?.deploymentName === b?.deploymentName && a?.buildId === b?.buildId;
}

interface Listed {
  deploymentName?: string | null;
  buildId?: string | null;
}

function versionOf(listed: Listed | null | undefined): WorkerDeploymentVersion | undefined {
  const { deploymentName, buildId } = listed ?? {};
  return deploymentName && buildId ? { deploymentName, buildId } : undefined;
}
