import type { WorkerDeploymentVersion } from '@temporalio/common';
import type { WorkerDeploymentOptions } from '@temporalio/worker';
import type { Config } from '../config.js';

type Settings = Pick<Config, 'TASK_QUEUE' | 'TEMPORAL_DEPLOYMENT_NAME' | 'TEMPORAL_WORKER_BUILD_ID'>;

/** Returns the deployment name of this installation's workers, even if they are not versioned. */
export function deploymentNameOf({ TEMPORAL_DEPLOYMENT_NAME, TASK_QUEUE }: Settings): string {
  // Temporal refuses both characters in a name.
  return TEMPORAL_DEPLOYMENT_NAME ?? TASK_QUEUE.replaceAll(/[.:]/g, '-');
}

/** Returns the version of this process's workers; undefined: they are not versioned. */
export function workerVersionOf(config: Settings): WorkerDeploymentVersion | undefined {
  const buildId = config.TEMPORAL_WORKER_BUILD_ID;
  return buildId === undefined ? undefined : { deploymentName: deploymentNameOf(config), buildId };
}

/**
 * Makes the options of a worker. Every workflow except `enrichment` moves on to the current version. Catch-up runs for weeks. The
 * sweep must not wait for workers of an old version. Nothing else sends a redelivery.
 */
export function deploymentOptionsOf(config: Settings): { workerDeploymentOptions?: WorkerDeploymentOptions } {
  const version = workerVersionOf(config);
  if (version === undefined) return {};
  return {
    workerDeploymentOptions: {
      version,
      useWorkerVersioning: true,
      defaultVersioningBehavior: 'AUTO_UPGRADE',
    },
  };
}
