import { getEndpoint } from '../../src/redis/records/endpoint.js';
import { monotonicMs } from '../monotonicMs.js';
import { latencyHead, latencyRow, liveTraffic } from './liveTraffic.js';
import { publishEvents } from './publishEvents.js';
import type { Study } from './study.js';

type Size = 'events' | 'answerMs' | 'livePerSecond' | 'seconds';

/** Measures a client's live events beside a mass import of the same client. */
export const backfill: Study<Size> = {
  name: 'backfill',
  about: 'Live events of one client beside many backfill events of the same client.',
  sizes: {
    events: [100_000, 'of backfill'],
    answerMs: [200, 'that the endpoint takes for each answer'],
    livePerSecond: [5, 'live events'],
    seconds: [30, 'measured of each phase'],
  },
  async run(sizes, stage) {
    const theatre = await stage.open({ split: false, receiverLatencyMs: sizes.answerMs });
    const { stack, cast } = theatre;
    const clientTokens = await cast.newRegisteredClients(1, theatre.receiverUrl);
    const [client = ''] = clientTokens;
    const live = (name: string, first: 'settle' | 'nothing') => {
      stage.say(name);
      return liveTraffic(theatre, {
        name,
        clientTokens,
        perSecond: sizes.livePerSecond,
        seconds: sizes.seconds,
        first,
      });
    };
    await live('warm-up', 'settle');
    const alone = await live('alone', 'settle');
    const from = monotonicMs();
    const flood = publishEvents(
      { baseUrl: stack.baseUrl, accessToken: cast.platform.accessToken, batchSize: 500, lanes: 2 },
      sizes.events,
      (i) => ({
        client_token: client,
        platform_id: `old-${i}`,
        segments: [`iab:${i}`, 'mood:calm'],
        priority: 'backfill',
      }),
    ).then(() => (monotonicMs() - from) / 1000);
    const during = await live('while-it-comes-in', 'nothing');
    const floodSeconds = await flood;
    const before = await getEndpoint(stack.db, client);
    const drainFrom = monotonicMs();
    const beside = await live('while-it-drains', 'nothing');
    const { owed } = await getEndpoint(stack.db, client);
    const perSecond = ((before.owed - owed) * 1000) / (monotonicMs() - drainFrom);
    return {
      tables: [
        {
          title: `${sizes.livePerSecond} live events a second beside ${sizes.events} backfill events of the same client, whose endpoint takes ${sizes.answerMs} ms`,
          head: latencyHead,
          rows: [
            latencyRow('without backfill', alone),
            latencyRow('while the backfill comes in', during),
            latencyRow('while it drains', beside),
          ],
        },
        {
          title: 'The backfill',
          head: ['', ''],
          rows: [
            ['seconds in which it was accepted', floodSeconds],
            ['owed when all was accepted', before.owed],
            ['delivered per second beside the live events', perSecond],
            ['owed at the end', owed],
          ],
        },
      ],
    };
  },
};
