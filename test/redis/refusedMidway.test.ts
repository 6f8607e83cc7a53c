/** A server may refuse a command in the midst of a script, whose user has lost a right: what the script has written before stays. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { library } from '../../src/redis/connection/library.js';
import { forgetAsset } from '../../src/redis/notifications/decisions.js';
import {
  cancelNotification,
  dismissFailed,
  recoverFailed,
  redeliver,
} from '../../src/redis/notifications/redeliver.js';
import { beginReplay } from '../../src/redis/notifications/replay.js';
import { newNonce, type Taken, type Verdict } from '../../src/redis/owed/turn.js';
import { getEndpoint, resumeEndpoint } from '../../src/redis/records/endpoint.js';
import { startOwnRedis } from '../ownRedis.js';
import { forSuite, useOpened } from '../servers.js';
import { day, minute, newDeliveryClient, second } from './deliveryClient.js';

const writes =
  'HSET HSETNX HDEL HINCRBY ZADD ZREM SADD SREM SET DEL UNLINK XADD EXPIRE PERSIST PEXPIRE LPUSH'.split(' ');
/** Refuses the write that counts down to 0. */
const refusing = library.replaceAll('redis.call(', 'run_unless_refused(').replace(
  '\n',
  `
local writes = {${writes.map((name) => `${name} = true`).join()}}
local function run_unless_refused(name, ...)
  if writes[name] and redis.call('DECR', 'writes-left') == 0 then error('refused') end
  return redis.call(name, ...)
end
`,
);

const number = fc.nat({ max: 20 });
const step = fc.record({
  kind: fc.constantFrom('claim', 'claim', 'turn', 'turn', 'turn', 'again', 'plan', 'change'),
  n: number,
  ok: fc.boolean(),
  refusedAt: fc.nat({ max: 14 }),
});

describe('A script that is refused a command midway', () => {
  const ofSuite = useOpened();
  const server = forSuite(async () => ofSuite(await startOwnRedis()));
  const direct = forSuite(() => ofSuite(new Redis(server.url)));
  before(async () => {
    await direct.call('FUNCTION', 'LOAD', refusing);
  });

  it('loses nothing that is owed, and prevents nothing, once it is repeated', async () => {
    const property = async (steps: (typeof step extends fc.Arbitrary<infer Step> ? Step : never)[]) => {
      const client = await newDeliveryClient({ retentionMs: day, failingAfter: 3 }, server.url);
      const { db, clientToken } = client;
      const ids: string[] = [];
      const lost: string[] = [];
      let open: Taken[] = [];
      /** As each caller does: the publisher, a hand, catch-up, an operator. */
      const insists = async (call: () => Promise<unknown>, refusedAt: number) => {
        await direct.set('writes-left', refusedAt);
        await call().catch(() => direct.set('writes-left', 0).then(call));
      };
      const takes = (call: (nonce: string) => Promise<{ taken: Taken[] }>) => async () => {
        const nonce = newNonce();
        lost.push(nonce);
        const { taken } = await call(nonce);
        open.push(...taken);
        lost.splice(lost.indexOf(nonce), 1);
      };
      const turn = (verdicts: Verdict[], most = 2) =>
        takes((nonce) => client.turn({ nonce, most, verdicts, lost }));
      for (const { kind, n, ok, refusedAt } of steps) {
        client.pass([second, 0, minute, 0, 0, 2 * minute, day][n % 7] ?? 0);
        if (kind === 'claim') {
          const priority = n % 3 === 0 ? 'backfill' : 'live';
          const event = client.event({ platformId: `vid-${n % 4}`, priority });
          ids.push(event.notificationId);
          await insists(
            takes((nonce) => client.claims([event], { nonce, most: n % 3 })),
            refusedAt,
          );
        } else if (kind === 'turn') {
          const [one, ...others] = open;
          open = others;
          await insists(turn(one === undefined ? [] : [client.verdict(one, { ok })]), refusedAt);
        } else if (kind === 'plan') await insists(() => client.plan(), refusedAt);
        else if (kind === 'again') {
          const id = ids[n % (ids.length || 1)] ?? '';
          await insists(() => redeliver(db, clientToken, id), refusedAt);
        } else {
          const range = { since: 0, until: client.now(), dryRun: false };
          const changes = [
            () => recoverFailed(db, clientToken, range),
            () => beginReplay(db, clientToken, range),
            () => cancelNotification(db, clientToken, ids[0] ?? ''),
            () => forgetAsset(db, clientToken, `vid-${n % 4}`),
            () => dismissFailed(db, clientToken, range),
          ];
          await insists(changes[n % 5] ?? assert.fail(), refusedAt);
        }
      }
      await direct.set('writes-left', 0);
      client.settings.retentionMs = Number.MAX_SAFE_INTEGER;
      await resumeEndpoint(db, clientToken);
      for (let round = 0; (await client.plan()).owed > 0; round++) {
        assert.ok(round < 60, 'something is owed and nothing delivers it');
        await turn([])();
        await turn(open.splice(0).map((one) => client.verdict(one, { ok: true })))();
        client.pass(minute);
      }
      assert.ok((await getEndpoint(db, clientToken)).isConsistent);
      const keys = db.client(clientToken);
      for (const id of ids) {
        const [asset, state] = await db.redis.hmget(keys.notification(id), 'asset', 'state');
        assert.ok(asset === null || state !== null, `${id} of ${asset} waits, and nobody owes it`);
      }
      db.redis.disconnect();
    };
    await fc.assert(fc.asyncProperty(fc.array(step, { maxLength: 40, size: 'max' }), property), {
      numRuns: Number(process.env.MODEL_RUNS ?? 20),
    });
  }).timeout(600_000);
});
