import { z } from 'zod';
import { endpoint } from '../endpoint.js';
import { text, time } from '../reference/schemas.js';
import { presentTime } from './present.js';

export const sourceAddressesEndpoint = endpoint({
  method: 'get',
  path: '/source_addresses',
  operationId: 'getSourceAddresses',
  tag: 'Service',
  summary: 'List the addresses from which notifications come',
  description:
    'For the firewall of a receiver: addresses and CIDR ranges, none if the operator names none. Needs no token; may be cached for an hour.',
  result: {
    what: 'The addresses.',
    schema: z.object({
      addresses: z.array(text('198.51.100.7')).meta({ examples: [['198.51.100.7', '2001:db8:5::/64']] }),
      changed_at: time('Since when this list stands.'),
    }),
  },
  codes: ['temporarily_unavailable'],
  answer: async ({ db, config }, { ctx }) => {
    const addresses = config.SOURCE_ADDRESSES;
    const key = db.global.sourceAddresses;
    const list = addresses.join();
    const known = await db.redis.hgetall(key);
    const changedAt = known.list === list ? Number(known.changed_at) : Date.now() + db.clockOffsetMs();
    if (known.list !== list) await db.redis.hset(key, { list, changed_at: changedAt });
    ctx.set('Cache-Control', 'public, max-age=3600');
    return { addresses, changed_at: presentTime(changedAt) };
  },
});
