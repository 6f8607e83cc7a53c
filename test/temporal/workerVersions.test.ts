/** Worker versions on a real server: each version is a harness, of one installation. */
import assert from 'node:assert/strict';
import type { WorkflowHandle } from '@temporalio/client';
import { pauseEndpoint, unpauseEndpoint } from '../../src/redis/records/endpoint.js';
import { nameOf, readVersionedQueue } from '../../src/temporal/versionedQueue.js';
import { type Harness, type Receiver, startHarness, startReceiver, until } from '../delivery/harness.js';
import { uniquePrefix } from '../servers.js';

/** `temporal.api.enums.v1.VersioningBehavior` */
const pinned = 1;
const autoUpgrade = 2;

describe('Worker versions', () => {
  let receiver: Receiver;
  let installation: Record<string, string>;
  let open: Harness[];

  beforeEach(async () => {
    const prefix = uniquePrefix();
    installation = { KEY_PREFIX: prefix, TASK_QUEUE: `${prefix}queue`, RETRY_SCHEDULE_SECONDS: '0.5' };
    receiver = await startReceiver();
    open = [];
  });
  afterEach(async () => {
    await Promise.all(open.map((h) => h.close()));
    await receiver.close();
  });

  it('the first version makes itself current; enrichments are pinned to it, and catch-up moves on to the current version', async () => {
    const one = await start('1.0');
    await until('it is current', () => one.currentVersion?.isOurs());
    assert.deepEqual(await one.route(), { current: '1.0' });
    const client = await one.newClient(receiver.url);
    receiver.delayMs = 700;
    const { id } = await one.publish({ client, asset: 'a' });
    assert.deepEqual(await versionOf(await one.workflowOf(client, id)), [pinned, '1.0']);

    await pauseEndpoint(one.db, client);
    await one.publish({ client, asset: 'b' });
    await one.deps.catchUps.start(client);
    const catchUp = one.temporal.workflow.getHandle(one.ids.catchUp(client));
    assert.deepEqual(await versionOf(catchUp), [autoUpgrade, '1.0']);
    const two = await start('2.0');
    await two.makeCurrent();
    await unpauseEndpoint(one.db, client);
    await one.wake(client);
    await catchUp.result();
    assert.deepEqual(await versionOf(catchUp), [autoUpgrade, '2.0']);
    assert.equal(receiver.idsOf('b').length, 1);
  });

  it('a second version gets no work until it is made current; then only it starts workflows eagerly', async () => {
    const one = await start('1.0');
    await until('it is current', () => one.currentVersion?.isOurs());
    const two = await start('2.0');
    const client = await one.newClient(receiver.url);
    const before = await two.publish({ client, asset: 'a' });
    assert.deepEqual(await versionOf(await two.workflowOf(client, before.id)), [pinned, '1.0']);

    await two.makeCurrent();
    await until('both have seen it', () => two.currentVersion?.isOurs() && !one.currentVersion?.isOurs());
    for (const h of [one, two]) {
      const { id } = await h.publish({ client, asset: 'b' });
      assert.deepEqual(await versionOf(await h.workflowOf(client, id)), [pinned, '2.0']);
    }
    await one.makeCurrent();
    await until('both have seen it', () => !two.currentVersion?.isOurs() && one.currentVersion?.isOurs());
    const after = await two.publish({ client, asset: 'c' });
    assert.deepEqual(await versionOf(await two.workflowOf(client, after.id)), [pinned, '1.0']);
  });

  it('an unversioned worker keeps the tasks until an operator chooses a version', async () => {
    const unversioned = await start(undefined);
    const one = await start('1.0');
    await until('both queues know the version', async () => (await one.workers()).includes('1.0'));
    const client = await one.newClient(receiver.url);
    const { id } = await one.publish({ client, asset: 'a' });
    const workflow = await one.workflowOf(client, id);
    await workflow.result();
    assert.deepEqual(await versionOf(workflow), [0, undefined]);
    assert.deepEqual(await one.route(), {});
    assert.equal(one.currentVersion?.isOurs(), false);

    await one.makeCurrent();
    const { id: next } = await unversioned.publish({ client, asset: 'b' });
    const handle = await one.workflowOf(client, next);
    await handle.result();
    assert.equal(receiver.received.length, 2);
  });

  it('no version makes itself current if an operator has chosen unversioned workers', async () => {
    const one = await start('1.0');
    await until('it is current', () => one.currentVersion?.isOurs());
    await one.makeCurrent('');
    await until('it sees that', () => one.currentVersion?.isOurs() === false);
    const two = await start('2.0');
    await until('it is there', async () => (await two.workers()).includes('2.0'));
    await until('it has looked', () => two.currentVersion?.isOurs() === false);
    assert.deepEqual(await one.route(), {});
  });

  it('the sweep delivers events pinned to a version without workers, and their workflow ends once an operator moves it', async () => {
    // The workflow waits for this time.
    const one = await start('1.0', { RETRY_SCHEDULE_SECONDS: '8' });
    await until('it is current', () => one.currentVersion?.isOurs());
    const client = await one.newClient(receiver.url);
    receiver.answer = () => 500;
    const { id } = await one.publish({ client, asset: 'a' });
    const workflow = await one.workflowOf(client, id);
    assert.deepEqual(await versionOf(workflow), [pinned, '1.0']);
    const two = await start('2.0');
    await two.makeCurrent();
    await one.stopWorker();
    receiver.answer = () => 200;
    two.skip(130_000);
    await two.sweep();
    await until('delivered', async () => (await two.notification(client, id))?.state === 'delivered');
    assert.equal((await workflow.describe()).status.name, 'RUNNING');

    await two.temporal.workflowService.updateWorkflowExecutionOptions({
      namespace: 'default',
      workflowExecution: { workflowId: workflow.workflowId },
      workflowExecutionOptions: { versioningOverride: { autoUpgrade: true } },
      updateMask: { paths: ['versioning_override'] },
    });
    assert.equal((await workflow.result()).state, 'delivered');
    assert.equal(receiver.received.length, 2, 'the failed attempt, and the one of catch-up');
  });

  interface Version extends Harness {
    /** Also waits until each queue routes to it: Temporal tells them one by one. */
    makeCurrent(buildId?: string): Promise<void>;
    /** Returns the build id of the queue's current version. */
    route(): Promise<{ current?: string }>;
    /** Returns the build ids of the workers that poll. */
    workers(): Promise<string[]>;
  }

  async function start(buildId: string | undefined, env: Record<string, string> = {}): Promise<Version> {
    const h = await startHarness({ ...installation, ...env, TEMPORAL_WORKER_BUILD_ID: buildId ?? '' });
    open.push(h);
    await h.startWorker();
    const queue = () => readVersionedQueue(h.temporal, h.taskQueue, 'workflow');
    const queues = [queue, () => readVersionedQueue(h.temporal, h.taskQueue, 'activity')];
    const version: Version = {
      ...h,
      async makeCurrent(chosen = buildId ?? '') {
        const deploymentName = h.taskQueue;
        await until('Temporal takes it', () =>
          h.temporal.workflowService
            .setWorkerDeploymentCurrentVersion({ namespace: 'default', deploymentName, buildId: chosen })
            .then(
              () => true,
              () => false,
            ),
        );
        await until('each queue routes to it', async () => {
          const routes = await Promise.all(queues.map((read) => read()));
          return routes.every(({ current }) => (current?.buildId ?? '') === chosen);
        });
      },
      async route() {
        const { current } = await queue();
        return current === undefined ? {} : { current: current.buildId };
      },
      async workers() {
        return (await queue()).workers.map((worker) => worker.version?.buildId ?? '');
      },
    };
    return version;
  }

  /** Returns behaviour and build id of a workflow, once it has completed a task. */
  async function versionOf(handle: WorkflowHandle): Promise<[number, string | undefined]> {
    const info = await until('its first task is done', async () => {
      const { raw } = await handle.describe();
      const found = raw.workflowExecutionInfo;
      return Number(found?.historyLength ?? 0) > 5 && (found?.versioningInfo ?? {});
    });
    return [Number(info.behavior ?? 0), info.deploymentVersion?.buildId ?? undefined];
  }

  it('writes the name of a version like Temporal', () => {
    assert.equal(nameOf({ deploymentName: 'notifications', buildId: '1.0' }), 'notifications:1.0');
  });
});
