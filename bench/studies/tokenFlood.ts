import { setTimeout as sleep } from 'node:timers/promises';
import { request } from 'undici';
import { createAccount } from '../../src/redis/records/accounts.js';
import { measure, type Round } from '../measure.js';
import { monotonicMs } from '../monotonicMs.js';
import { percentile } from '../percentile.js';
import type { Study } from './study.js';

type Size = 'perSecond' | 'probesPerSecond' | 'seconds';

/** Measures token requests of one account beside a flood of wrong secrets for another. */
export const tokenFlood: Study<Size> = {
  name: 'token-flood',
  about: 'Token requests of one account beside a flood of wrong secrets for another.',
  sizes: {
    perSecond: [1000, 'of the flood; the study also tries three times as many'],
    probesPerSecond: [20, 'requests of the account that is watched'],
    seconds: [15, 'measured of each phase'],
  },
  async run(sizes, stage) {
    const { stack, publisher, receiver, pids } = await stage.open();
    const flooded = await createAccount(stack.db, { name: 'flooded' });
    const watched = await createAccount(stack.db, { name: 'watched' });

    const flood = (perSecond: number): Promise<Round> =>
      measure(
        {
          baseUrls: stack.baseUrls,
          connections: 64,
          pace: { kind: 'rate', requestsPerSecond: perSecond },
          warmUpMs: 1000,
          durationMs: sizes.seconds * 1000,
          request: {
            kind: 'token',
            accounts: [{ clientId: flooded.client_id, clientSecret: 'wrong' }],
            scope: 'push_notifications',
          },
        },
        publisher,
        receiver,
        pids,
        { first: 'nothing' },
      );
    const probe = async (): Promise<{ took: number[]; refused: number }> => {
      const took: number[] = [];
      let refused = 0;
      const body = new URLSearchParams({
        grant_type: 'none',
        client_id: watched.client_id,
        client_secret: watched.client_secret,
        scope: 'push_notifications',
      }).toString();
      const headers = { 'content-type': 'application/x-www-form-urlencoded' };
      for (let i = 0; i < sizes.seconds * sizes.probesPerSecond; i++) {
        const from = monotonicMs();
        const answer = await request(`${stack.baseUrl}/oauth/access_token`, {
          method: 'POST',
          headers,
          body,
        });
        await answer.body.dump();
        took.push(monotonicMs() - from);
        if (answer.statusCode !== 200) refused++;
        await sleep(1000 / sizes.probesPerSecond);
      }
      return { took: took.sort((a, b) => a - b), refused };
    };

    stage.say('warm-up');
    await probe();
    stage.say('alone');
    const alone = await probe();
    const rows = [rowOf('without a flood', alone, alone, 0)];
    for (const perSecond of [sizes.perSecond, 3 * sizes.perSecond]) {
      stage.say(`${perSecond} a second`);
      const [round, beside] = await Promise.all([flood(perSecond), sleep(1000).then(probe)]);
      const refusals = Object.values(round.refusals).reduce((sum, n) => sum + n, 0);
      rows.push(rowOf(`${perSecond} a second`, beside, alone, refusals));
    }
    return {
      tables: [
        {
          title: 'A token for one account beside wrong secrets for another, from 64 connections',
          head: [
            'flood',
            'p50, ms',
            'p99, ms',
            'p50 / without',
            'p99 / without',
            'not answered 200',
            'of the flood refused',
          ],
          rows,
        },
      ],
    };
  },
};

function rowOf(
  what: string,
  { took, refused }: { took: number[]; refused: number },
  alone: { took: number[] },
  floodRefused: number,
): (string | number)[] {
  const p50 = percentile(took, 0.5);
  const p99 = percentile(took, 0.99);
  return [
    what,
    p50,
    p99,
    p50 / percentile(alone.took, 0.5),
    p99 / percentile(alone.took, 0.99),
    refused,
    floodRefused,
  ];
}
