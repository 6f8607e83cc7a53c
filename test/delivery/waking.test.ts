import assert from 'node:assert/strict';
import type { Place } from '../../src/outgoing/post.js';
import { getEndpoint, setPaused } from '../../src/redis/records/endpoint.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { type Harness, startHarness } from '../service.js';

describe('Catch-up is woken once for a paused client', () => {
  let h: Harness;
  let receiver: Receiver;
  const signals: string[] = [];

  before(async () => {
    h = await startHarness();
    await h.startWorker();
    receiver = await startReceiver();
    const workflows = h.temporal.workflow;
    const real = workflows.signalWithStart.bind(workflows);
    workflows.signalWithStart = ((type: string, options: { workflowId: string }) => {
      signals.push(options.workflowId);
      return real(type, options as never);
    }) as typeof workflows.signalWithStart;
  });
  after(async () => {
    await h.close();
    await receiver.close();
  });

  it('20 events start one catch-up, which is signalled once', async () => {
    const client = await h.newClient(receiver.url);
    await setPaused(h.db, client, true);
    const events = [];
    for (let i = 0; i < 10; i++) events.push(await h.publish({ client, asset: `one-${i}` }));
    events.push(
      ...(await Promise.all(
        Array.from({ length: 10 }, (_, i) => h.publish({ client, asset: `together-${i}` })),
      )),
    );
    // Their workflows have ended: nobody works on them but catch-up.
    for (const { id } of events) await (await h.workflowOf(client, id)).result();
    assert.equal((await getEndpoint(h.db, client)).owed, 20);
    assert.equal(receiver.received.length, 0);
    const catchUp = h.temporal.workflow.getHandle(h.ids.catchUp(client));
    await until('it has looked', async () => (await catchUp.describe()).memo?.owed !== undefined);
    assert.deepEqual(signals, [h.ids.catchUp(client)]);
    const { events: history } = await catchUp.fetchHistory();
    const signalled = history?.filter((e) => e.workflowExecutionSignaledEventAttributes) ?? [];
    assert.equal(signalled.length, 1);
    await catchUp.terminate();
  });
});

describe('Failures of our own', () => {
  let h: Harness;
  let receiver: Receiver;
  let isCutOff = true;
  const causes: string[] = [];

  before(async () => {
    h = await startHarness({ failingAfter: 2 }, 'all', {
      metrics: { ownFailure: (cause) => causes.push(cause) },
      place: async (real, ...asked) => {
        const place = await real.place(...asked);
        return isCutOff ? cutOff(place) : place;
      },
    });
    await h.startWorker();
    receiver = await startReceiver();
  });
  after(async () => {
    await h.close();
    await receiver.close();
  });

  it('make no endpoint failing, count as no attempt, and end by themselves', async () => {
    const client = await h.newClient(receiver.url);
    const events = await Promise.all(
      Array.from({ length: 10 }, (_, i) => h.publish({ client, asset: `vid-${i}` })),
    );
    await until('one was tried again', () => causes.length > 10);
    assert.deepEqual(new Set(causes), new Set(['network']));
    const { state, failures, owed, lastError } = await getEndpoint(h.db, client);
    assert.deepEqual([state, failures, owed, lastError], ['active', 0, 10, undefined]);
    for (const { id } of events) assert.deepEqual((await h.notification(client, id))?.attempts, []);
    isCutOff = false;
    for (const { id } of events) {
      assert.equal((await h.delivered(client, id)).attempts.length, 1);
    }
  });

  it('pause the client’s attempts, each time for longer, and are logged once for each pause', async () => {
    isCutOff = true;
    const client = await h.newClient(receiver.url);
    let failures = 0;
    const pauses: { ms: number; failures: number }[] = [];
    h.deps.metrics.ownFailure = () => failures++;
    h.deps.log.warn = ({ client_token, pause_ms: ms }: { client_token?: string; pause_ms?: number }) => {
      if (client_token === client && ms !== undefined) pauses.push({ ms, failures });
    };
    const events = await Promise.all(
      Array.from({ length: 100 }, (_, i) => h.publish({ client, asset: `vid-${i}` })),
    );
    const [first, second, third] = await until('there were three', () => pauses.length === 3 && pauses);
    assert.deepEqual([first?.ms, second?.ms, third?.ms], [1000, 2000, 4000]);
    // As many as have places fail before the first pause is known, then one at a time.
    assert.equal(third?.failures, (second?.failures ?? 0) + 1);
    isCutOff = false;
    await until('nothing is owed', async () => (await getEndpoint(h.db, client)).owed === 0);
    for (const { id } of events) assert.equal((await h.notification(client, id))?.attempts.length, 1);
  });
});

/** A place at which every POST fails, because this machine has no network. */
function cutOff(place: Place): Place {
  return {
    async post() {
      place.release();
      return { ok: false, error: 'connect', ours: 'network', milliseconds: 1 };
    },
    release: () => place.release(),
  };
}
