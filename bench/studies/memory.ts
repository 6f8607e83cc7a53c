import { setTimeout as sleep } from 'node:timers/promises';
import { dropDecisions, importCatalogue, importNaively } from './knownSegments.js';
import { keysMemory, usedMemory } from './redisMemory.js';
import type { Study } from './study.js';

type Size = 'assets' | 'segments' | 'naiveAssets';

/** Measures the memory of known segments in Redis. */
export const memory: Study<Size> = {
  name: 'memory',
  about: 'Redis memory of known segments, packed, beside one set for each asset.',
  sizes: {
    assets: [1_000_000, 'known, all of one client'],
    segments: [10, 'of each'],
    naiveAssets: [100_000, 'in the layout with one set for each'],
  },
  async run({ assets, segments, naiveAssets }, stage) {
    const { stack, cast } = await stage.open({ split: false });
    const { db } = stack;
    const [client = ''] = await cast.newClients(1);
    const empty = await usedMemory(db);
    stage.say(`${assets} assets by silent events`);
    await importCatalogue(db, client, { from: 0, to: assets, segments });
    const withDecisions = await usedMemory(db);
    stage.say('without their decisions');
    const decisions = await dropDecisions(db, client);
    // Redis frees unlinked keys and shrinks its table of keys a little later.
    await settled(() => usedMemory(db));
    const packed = await usedMemory(db);
    const buckets = await keysMemory(db, `${db.client(client).base}known:*`);
    stage.say(`${naiveAssets} assets as sets`);
    await importNaively(db, naiveAssets, segments);
    const naive = (await usedMemory(db)) - packed;
    const known = packed - empty;
    const mb = (bytes: number) => bytes / 2 ** 20;
    return {
      tables: [
        {
          title: `Known segments: ${segments} of each asset`,
          head: ['', 'assets', 'bytes per asset', 'MB', 'MB for 1 million assets'],
          rows: [
            ['packed, everything counted', assets, known / assets, mb(known), mb((known / assets) * 1e6)],
            [
              `of these in ${buckets.keys} buckets (MEMORY USAGE)`,
              assets,
              buckets.bytes / assets,
              mb(buckets.bytes),
              mb((buckets.bytes / assets) * 1e6),
            ],
            [
              'one set for each asset',
              naiveAssets,
              naive / naiveAssets,
              mb(naive),
              mb((naive / naiveAssets) * 1e6),
            ],
            [
              'last decision of each asset, for 14 days after a silent event or one that brought nothing',
              decisions,
              (withDecisions - packed) / decisions,
              mb(withDecisions - packed),
              mb(((withDecisions - packed) / decisions) * 1e6),
            ],
          ],
        },
      ],
    };
  },
};

/** Waits until a figure does not change for a second. */
async function settled(figure: () => Promise<number>): Promise<void> {
  for (let before = await figure(), i = 0; i < 60; i++) {
    await sleep(1000);
    const now = await figure();
    if (Math.abs(now - before) < 100_000) return;
    before = now;
  }
}
