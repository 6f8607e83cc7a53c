import assert from 'node:assert/strict';
import { setClient } from '../../src/redis/records/clients.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { runSweep } from '../../src/upkeep/sweep.js';
import { keysMatching } from '../keysMatching.js';
import { closeGate, until } from '../receiver.js';
import { type HarnessScene, useHarness } from '../service.js';

describe('Waking', () => {
  let isCutOff = false;
  let causes: string[] = [];
  const scene: HarnessScene = useHarness(
    { failingAfter: 2 },
    {
      metrics: { ownFailure: (cause) => causes.push(cause) },
      /** Gives permits with which every POST fails, because this machine has no network. */
      permit: async (real, ...asked) => {
        const permit = await real.permit(...asked);
        if (!isCutOff || permit === undefined) return permit;
        return {
          async post() {
            permit.release();
            return { ok: false, error: 'connect', ours: 'network', milliseconds: 1 };
          },
          release: () => permit.release(),
          over: async () => undefined,
        };
      },
    },
  );

  describe('Catch-up', () => {
    it('of a client with more events than places is woken once, and sleeps until it said', async () => {
      const { h, receiver, client } = scene;
      receiver.delayMs = 300;
      await setClient(h.db, client, { max_in_flight: 1 });
      await h.publishAll(client, 'first', 50);
      const isPlanned = async () => ((await h.endpoint(client)).catchUpUntil ?? 0) > Date.now() + 5000;
      await until('catch-up sleeps', isPlanned);
      const [id] = await h.publishAll(client, 'later', 2);
      await (await h.workflowOf(client, id as string)).result();
      receiver.delayMs = 0;
      await h.noneOwed(client);
      const { events = [] } = (await h.catchUp(client).fetchHistory()) as { events?: object[] };
      const count = (kind: string) => events.filter((event) => kind in event && event[kind as never]).length;
      const counted = ['workflowExecutionSignaledEventAttributes', 'timerCanceledEventAttributes'].map(count);
      assert.deepEqual(counted, [1, 0]);
    });

    it('is not needed for what a process sends at the end of a quiet period', async () => {
      const { h, client } = scene;
      await setClient(h.db, client, { quiet_seconds: 1 });
      for (const id of await h.publishAll(client, 'vid', 3)) await h.delivered(client, id);
      assert.equal(await h.catchUpRun(client), undefined);
    });

    it('finds no client in the index that does not exist, of which nothing stays', async () => {
      const { h } = scene;
      const { kind } = await h.publish({ client: 'made-up', asset: 'vid' });
      assert.equal(kind, 'unknown_client');
      assert.equal(await h.db.redis.zscore(h.db.global.owedClients, 'made-up'), null);
      assert.deepEqual(await keysMatching(h.db, '*{made-up}:*'), []);
    });
  });

  describe('Failures of our own', () => {
    beforeEach(() => {
      [isCutOff, causes] = [true, []];
    });

    it('make no endpoint failing, count as no attempt, and end by themselves', async () => {
      const { h, client } = scene;
      const ids = await h.publishAll(client, 'vid', 10);
      await until('one was tried again', () => causes.length > 10);
      assert.deepEqual(new Set(causes), new Set(['network']));
      const { state, failures, owed, lastError } = await h.endpoint(client);
      assert.deepEqual([state, failures, owed, lastError], ['active', 0, 10, undefined]);
      for (const id of ids) assert.deepEqual((await h.notification(client, id))?.attempts, []);
      const result = await (await h.workflowOf(client, ids[0] as string)).result();
      // Due: its next try was about to begin when the workflow ended.
      assert.match(String((result.not_delivered?.[0] ?? result).reason), /^(own_failure|due)$/);
      isCutOff = false;
      for (const id of ids) assert.equal((await h.delivered(client, id)).attempts.length, 1);
    });

    it('pause the client’s attempts, each time for longer, and are logged once for each pause', async () => {
      const { h, client } = scene;
      const pauses: { ms: number; failures: number }[] = [];
      h.deps.log.warn = ({ client_token, pause_ms: ms }: { client_token?: string; pause_ms?: number }) => {
        if (client_token === client && ms !== undefined) pauses.push({ ms, failures: causes.length });
      };
      await h.publishAll(client, 'vid', 100);
      const [first, second, third] = await until('there were three', () => pauses.length === 3 && pauses);
      assert.deepEqual([first?.ms, second?.ms, third?.ms], [1000, 2000, 4000]);
      // As many as have places fail before the first pause is known, then one at a time.
      assert.equal(third?.failures, (second?.failures ?? 0) + 1);
      await setPaused(h.db, client, true);
    });

    it('leave what is overdue to a catch-up that has planned: no sweep wakes or replaces it', async () => {
      const { h, client } = scene;
      await h.publishAll(client, 'vid', 40);
      await until('one was tried', () => causes.length > 0);
      const plannedAt = async () => Number(await h.db.redis.hget(h.db.client(client).endpoint, 'planned_at'));
      await until('catch-up has planned', plannedAt);
      h.skip(150_000);
      await h.wake(client);
      await until('catch-up has planned again', async () => (await plannedAt()) > Date.now() + 140_000);
      const from = Date.now();
      const { overdueMs, catchUpLateMs } = await h.endpoint(client);
      assert.ok(overdueMs > 120_000);
      const { woken, replaced } = await runSweep(h.deps);
      // On a busy machine catch-up itself may come late, and is woken.
      if (catchUpLateMs + Date.now() - from < 2000) assert.deepEqual([woken, replaced], [0, 0]);
      isCutOff = false;
      await h.noneOwed(client);
    });

    it('end with one attempt, and while that is under way Redis is asked nothing', async () => {
      const { h, client, receiver } = scene;
      await h.publishAll(client, 'vid', 20);
      await until('all had failed', () => causes.length > 0);
      const gate = closeGate(receiver);
      isCutOff = false;
      await until('one is sent', () => receiver.received.length === 1);
      const { redis } = h.db;
      const send = redis.sendCommand;
      let turns = 0;
      redis.sendCommand = (command, ...rest) => {
        if (String(command.args[0]).startsWith('turn_')) turns++;
        return send.call(redis, command, ...rest);
      };
      await new Promise((resolve) => setTimeout(resolve, 600));
      redis.sendCommand = send;
      gate.open();
      await h.noneOwed(client);
      assert.ok(turns <= 10, `${turns} turns`);
    });
  });
});
