/** Checks of the worker versions: which gets tasks, and whether it has workers. */
import { type Client, isGrpcServiceError } from '@temporalio/client';
import type { WorkerDeploymentVersion } from '@temporalio/common';
import type { Config } from '../../config.js';
import { upkeepQueueOf } from '../../temporal/upkeepQueue.js';
import { isSame, nameOf, readVersionedQueue, type VersionedQueue } from '../../temporal/versionedQueue.js';
import { deploymentNameOf, workerVersionOf } from '../../temporal/workerVersion.js';
import { type Finding, fail, ok, warn } from './finding.js';

const check = 'temporal versions';
/** gRPC's NOT_FOUND and UNIMPLEMENTED */
const noDeployment = [5, 12];
/** `temporal.api.enums.v1.VersionDrainageStatus` */
const isDraining = 1;

export async function checkVersions(temporal: Client, config: Config): Promise<Finding[]> {
  const { TASK_QUEUE: taskQueue } = config;
  const deployment = await readDeployment(temporal, deploymentNameOf(config));
  const queues = await Promise.all([
    readVersionedQueue(temporal, taskQueue, 'workflow'),
    readVersionedQueue(temporal, upkeepQueueOf(taskQueue), 'activity'),
  ]);
  // A queue does not know a version whose workers never polled it.
  const routed = queues.map((queue) => ({ ...deployment.routing, ...queue }));
  const routes = routed.map((queue) => ofRoute(queue, config));
  // The queues are routed together: a finding about another queue matters only if the first is fine.
  const route = routes.find(({ level }) => level !== 'ok') ?? (routes[0] as Finding);
  return [route, ...(await ofPinned(temporal, deployment.draining, queues[0].workers))];
}

function ofRoute({ current, ramping, workers }: VersionedQueue, config: Config): Finding {
  const of = (version?: WorkerDeploymentVersion) =>
    workers.filter((worker) => isSame(worker.version, version)).length;
  const unversioned = of(undefined);
  if (current === undefined) return ofNoCurrent(workers, unversioned, config);
  if (of(current) === 0) {
    const [other] = workers.flatMap(({ version }) => version?.buildId ?? []);
    const todo = `Start workers of it, or make another version current: ${setCurrent(current.deploymentName, other)}`;
    return fail(check, `${nameOf(current)} is current, and no worker of it asks for work: tasks wait.`, todo);
  }
  if (ramping !== undefined && ramping.percentage > 0 && of(ramping) === 0) {
    const todo = `Start workers of it, or end the ramp: temporal worker deployment set-ramping-version --deployment-name ${ramping.deploymentName} --build-id ${ramping.buildId} --delete`;
    const found = `${nameOf(ramping)} gets ${ramping.percentage} % of new workflows, and no worker of it asks for work.`;
    return fail(check, found, todo);
  }
  if (unversioned > 0) {
    const found = `${nameOf(current)} is current; ${unversioned} workers without a build id get no work.`;
    return warn(check, found, 'Set TEMPORAL_WORKER_BUILD_ID for every worker, or for none.');
  }
  const ramp = ramping === undefined ? '' : `; ${nameOf(ramping)} gets ${ramping.percentage} %`;
  return ok(check, `${nameOf(current)} is current (${of(current)} workers)${ramp}.`);
}

function ofNoCurrent(workers: VersionedQueue['workers'], unversioned: number, config: Config): Finding {
  const version = workers.find((worker) => worker.version !== undefined)?.version ?? workerVersionOf(config);
  if (version === undefined) return ok(check, 'The workers are not versioned.');
  const command = setCurrent(version.deploymentName, version.buildId);
  if (unversioned > 0) {
    const found = `No version is current: ${unversioned} workers without a build id get all work.`;
    const todo = `Make one current (${command}), or end the workers without a build id: the others then take their place.`;
    return warn(check, found, todo);
  }
  return fail(check, 'No version is current: tasks wait for workers without a build id.', command);
}

function setCurrent(deploymentName: string, buildId = 'BUILD_ID'): string {
  return `temporal worker deployment set-current-version --deployment-name ${deploymentName} --build-id ${buildId}`;
}

/** Finds versions that have pinned enrichments but no worker. */
async function ofPinned(
  temporal: Client,
  draining: readonly WorkerDeploymentVersion[],
  workers: VersionedQueue['workers'],
): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const version of draining) {
    if (workers.some((worker) => isSame(worker.version, version))) continue;
    const query = `TemporalWorkerDeploymentVersion = '${nameOf(version)}' AND TemporalWorkflowVersioningBehavior = 'Pinned' AND ExecutionStatus = 'Running'`;
    const { count } = await temporal.workflow.count(query);
    if (count === 0) continue;
    const found = `${count} enrichments run on ${nameOf(version)}, which has no workers. Catch-up delivers their events.`;
    const todo = `Start its workers until they have ended, or move them: temporal workflow update-options --versioning-override-behavior auto_upgrade --query "${query}"`;
    findings.push(warn('temporal pinned workflows', found, todo));
  }
  return findings;
}

interface Deployment {
  routing: Pick<VersionedQueue, 'current'>;
  draining: WorkerDeploymentVersion[];
}

async function readDeployment(
  { workflowService, options }: Client,
  deploymentName: string,
): Promise<Deployment> {
  try {
    const { namespace } = options;
    const { workerDeploymentInfo } = await workflowService.describeWorkerDeployment({
      namespace,
      deploymentName,
    });
    const current = workerDeploymentInfo?.routingConfig?.currentDeploymentVersion?.buildId;
    return {
      routing: current ? { current: { deploymentName, buildId: current } } : {},
      draining: (workerDeploymentInfo?.versionSummaries ?? []).flatMap((summary) => {
        const buildId = summary.deploymentVersion?.buildId;
        return summary.drainageInfo?.status === isDraining && buildId ? [{ deploymentName, buildId }] : [];
      }),
    };
  } catch (err) {
    if (isGrpcServiceError(err) && noDeployment.includes(err.code)) return { routing: {}, draining: [] };
    throw err;
  }
}
