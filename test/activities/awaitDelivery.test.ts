import assert from 'node:assert/strict';
import { once } from 'node:events';
import { ApplicationFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { awaitDelivery } from '../../activities/awaitDelivery.js';
import type { Outcome, Waiting } from '../../src/delivery/outcome.js';
import type { Delivery } from '../../src/delivery/work.js';
import type { ClaimedEvent } from '../../src/redis/owed/claim.js';
import type { ActivityDeps } from '../../src/upkeep/deps.js';
import { startGate } from '../delivery/harness.js';

const delivered: Outcome = { state: 'delivered', status: 200 };
const underWay: Waiting = { state: 'waiting', reason: 'under_way', inMs: 0, failures: 0 };
const dueLater: Waiting = { state: 'waiting', reason: 'retry', inMs: 120_000, failures: 3, status: 503 };

function event(platformId: string): ClaimedEvent {
  return {
    ...{ clientToken: 'SITE0042', platformId, eventId: 'an-1', notificationId: `msg_${platformId}` },
    ...{ segments: ['iab:17'], priority: 'live', acceptedAt: 1, claim: 1 },
  };
}

function depsWith(join: (delivery: Delivery) => Promise<Outcome>): ActivityDeps {
  const engine = { join, forget() {} };
  return { engine, catchUps: { async wake() {} } } as unknown as ActivityDeps;
}

describe('The activity awaitDelivery', () => {
  it('sends heartbeats to Temporal while a receiver is slow', async () => {
    const receiver = startGate();
    const deps = depsWith(async () => {
      await receiver.closed;
      return delivered;
    });
    const env = new MockActivityEnvironment();
    const heartbeat = once(env, 'heartbeat');
    const report = env.run(() => awaitDelivery(deps, [event('slow')], [underWay]));
    await heartbeat;
    receiver.open();
    assert.deepEqual(await report, { delivered: 1, status: 200, rest: [] });
  });

  it('ends immediately when it is cancelled: the engine goes on with attempts under way', async () => {
    const receiver = startGate();
    const asked: string[] = [];
    const deps = depsWith(async ({ platformId }) => {
      asked.push(platformId);
      await receiver.closed;
      return delivered;
    });
    const env = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR') });
    const left = env
      .run(() => awaitDelivery(deps, [event('slow'), event('later')], [underWay, dueLater]))
      .catch((err: unknown) => err);
    env.cancel();
    const failure = await left;
    assert.ok(failure instanceof ApplicationFailure, String(failure));
    assert.equal(failure.message, 'waits: under_way (slow to SITE0042); 1 more of 2 wait');
    assert.deepEqual(asked, ['slow']);
    receiver.open();
  });
});
