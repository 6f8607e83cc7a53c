import { z } from 'zod';
import { presentTime } from '../../acts/present.js';
import { oneOfMany, text, time, yesOrNo } from '../../http/schemas.js';
import { redisReasons } from '../../redis/connection/unavailable.js';
import { declareCall } from '../call.js';

export const getSourceAddressesCall = declareCall({
  route: 'GET /source_addresses',
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

export const getHealthCall = declareCall({
  route: 'GET /healthz',
  summary: 'Say whether this process is alive',
  description: 'For a supervisor that restarts processes.',
  result: { what: 'Alive.', schema: z.object({ status: text('ok') }) },
  answer: () => ({ status: 'ok' }),
});

const readiness = z.object({
  status: z.enum(['ready', 'not ready']),
  redis: yesOrNo(true),
  temporal: yesOrNo(true, 'May be false while the service is ready.'),
  reasons: z.array(oneOfMany(redisReasons)).describe('Why Redis does not serve.').optional(),
});

export const getReadinessCall = declareCall({
  route: 'GET /readyz',
  summary: 'Say whether this process can do its work',
  description: 'Ready while Redis serves and the process was not told to stop. Temporal may be unavailable.',
  result: { what: 'Ready.', schema: readiness },
  otherResults: { 503: { what: 'Not ready.', schema: readiness } },
  answer: async (deps, { ctx }) => {
    const found = await deps.readiness();
    if (found.status !== 'ready') ctx.status = 503;
    return found;
  },
});
