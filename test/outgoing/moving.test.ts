import assert from 'node:assert/strict';
import { useTogether } from '../together.js';
import { namesBy } from './dnsServer.js';
import { noContent, requestTo, useNetwork } from './rawReceiver.js';

describe('a receiver whose name moves', () => {
  const { start, startQuick, sending } = useNetwork(after);
  const itWaits = useTogether();
  const host = 'hooks.customer.example';

  /** Posts one by one to a busy old server, until `done`; the name is moved after the first. */
  async function move(
    lookup: (moved: boolean) => Promise<readonly string[]>,
    done: (posts: number, toNew: number) => boolean,
    { restsMs = 50 } = {},
  ) {
    let moved = false;
    const old = await start({ answer: (s) => s.write(noContent) });
    const fresh = await start({ host: '127.0.0.2', port: old.port, answer: (s) => s.write(noContent) });
    const names = namesBy(async () =>
      (await lookup(moved)).map((address) => ({ address, family: 4, ttlSeconds: 1 })),
    );
    const sender = sending({ names });
    const requests = () => fresh.received().split('POST ').length - 1;
    const failed: unknown[] = [];
    for (let posts = 1; !done(posts, requests()); posts++) {
      if (moved) await new Promise((resolve) => setTimeout(resolve, restsMs));
      const result = await sender.post(requestTo(`http://${host}:${old.port}/`));
      if (!result.ok) failed.push(result);
      moved = true;
    }
    return { failed, toOld: old.accepted(), toNew: requests() };
  }

  itWaits(
    'is followed within about the TTL though the old server is kept busy, and no attempt fails',
    async () => {
      const { failed, toOld, toNew } = await move(
        async (moved) => [moved ? '127.0.0.2' : '127.0.0.1'],
        (_, toNew) => toNew > 0,
      );
      assert.deepEqual([failed, toOld, toNew], [[], 1, 1]);
    },
  );

  itWaits(
    'is followed by the first attempt after the TTL, over a connection that rested until then',
    async () => {
      const { failed, toOld, toNew } = await move(
        async (moved) => [moved ? '127.0.0.2' : '127.0.0.1'],
        (posts) => posts > 2,
        { restsMs: 5_100 },
      );
      assert.deepEqual([failed, toOld, toNew], [[], 1, 1]);
    },
  );

  itWaits('keeps its connection where the address is still one of several', async () => {
    const { failed, toOld, toNew } = await move(
      async (moved) => (moved ? ['127.0.0.2', '127.0.0.1'] : ['127.0.0.1']),
      (posts) => posts > 120,
    );
    assert.deepEqual([failed, toOld, toNew], [[], 1, 0]);
  });

  itWaits('keeps its connections where each answer has another address of several', async () => {
    const one = await startQuick();
    await start({ host: '127.0.0.2', port: one.port, answer: (s) => s.write(noContent) });
    let asked = 0;
    const names = namesBy(async () => [
      { address: `127.0.0.${1 + (asked++ % 2)}`, family: 4, ttlSeconds: 60 },
    ]);
    const sender = sending({ names });
    for (let round = 0; round < 3; round++) {
      const posts = [1, 2].map(() => sender.post(requestTo(`http://${host}:${one.port}/`)));
      for (const { ok } of await Promise.all(posts)) assert.ok(ok);
    }
    assert.equal(asked, 2);
  });

  itWaits('keeps its connection while its name server is silent or broken', async () => {
    let asked = 0;
    const { failed, toOld } = await move(
      async (moved) => {
        asked++;
        if (moved) throw Object.assign(new Error('broken'), { code: 'ESERVFAIL' });
        return ['127.0.0.1'];
      },
      () => asked > 1,
    );
    assert.deepEqual([failed, toOld], [[], 1]);
  });

  itWaits('is judged again: an address that is not public ends the connection', async () => {
    const old = await start({ answer: (s) => s.write(noContent) });
    let address = '127.0.0.1';
    const sender = sending({ names: namesBy(async () => [{ address, family: 4, ttlSeconds: 1 }]) });
    const post = () => sender.post(requestTo(`http://${host}:${old.port}/`));
    assert.equal((await post()).ok, true);
    address = '10.0.0.7';
    let last = await post();
    while (last.ok) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      last = await post();
    }
    assert.deepEqual([last.error, last.detail], ['blocked_address', 'not_public']);
  });
});
