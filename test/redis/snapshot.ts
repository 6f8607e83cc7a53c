import { keysMatching } from '../keysMatching.js';
import type { DeliveryClient } from './deliveryClient.js';

/** Every key of a client as it is now; what it answers puts all of them back and removes what came since. */
export async function snapshot(client: DeliveryClient): Promise<() => Promise<void>> {
  const { redis } = client.db;
  const { base } = client.db.client(client.clientToken);
  const present = () => keysMatching(client.db, `${base.replaceAll('[', '\\[')}*`);
  const kept = await Promise.all(
    (await present()).map(async (key) => ({ key, dump: await redis.dumpBuffer(key) })),
  );
  return async () => {
    const keys = await present();
    if (keys.length > 0) await redis.del(...keys);
    for (const { key, dump } of kept) if (dump !== null) await redis.restore(key, 0, dump);
  };
}
