import type { WorkerDeploymentVersion } from '@temporalio/common';
import type { WorkerDeploymentOptions } from '@temporalio/worker';
import type { Config } from '../config.js';

type Settings = Pick<Config, 'TASK_QUEUE' | 'TEMPORAL_DEPLOYMENT_NAME' | 'TEMPORAL_WORKER_BUILD_ID'>;

/** Returns the deployment of this installation's workers, also where they are not versioned. */
export function deploymentNameOf({ TEMPORAL_DEPLOYMENT_NAME, TASK_QUEUE }: Settings): string {
  // Temporal takes neither of the two in a name.
  return TEMPORAL_DEPLOYMENT_NAME ?? TASK_QUEUE.replaceAll(/[.:]/g, '-');
}

/** Returns the version that the workers of this process are of; undefined: they are not versioned. */
export function workerVersionOf(config: Settings): WorkerDeploymentVersion | undefined {
  const buildId = config.TEMPORAL_WORKER_BUILD_ID;
  return buildId === undefined ? undefined : { deploymentName: deploymentNameOf(config), buildId };
}

/**
 * Makes the options of a worker. Every workflow but `enrichment` goes on with the version that is current: catch-up lives
 * for weeks, the sweep must not stand still with an old version, and nobody else would make a redelivery's attempts.
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
