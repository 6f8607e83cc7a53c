import { getEndpoint } from '../../src/redis/records/endpoint.js';
import { monotonicMs } from '../monotonicMs.js';
import { startEndpoint } from './endpoint.js';
import { latencyHead, latencyRow, liveTraffic, ratioRow } from './liveTraffic.js';
import { publishEvents } from './publishEvents.js';
import type { Study } from './study.js';

type Size = 'events' | 'perSecond' | 'answerMs' | 'clients' | 'seconds';

/** Measures 50 clients beside one with a slow endpoint and many events. */
export const slowClient: Study<Size> = {
  name: 'slow-client',
  about: 'Live events of many clients beside one that has many events and an endpoint that takes seconds.',
  sizes: {
    events: [100_000, 'of the slow client'],
    perSecond: [2000, 'of these, while they come in, in batches of 100'],
    answerMs: [8000, 'that its endpoint takes for each answer'],
    clients: [50, 'beside it, one event a second each'],
    seconds: [30, 'measured of each phase'],
  },
  async run(sizes, stage) {
    const theatre = await stage.open({ split: false });
    const { stack, cast } = theatre;
    const endpoint = await startEndpoint();
    endpoint.answer = { status: 204, afterMs: sizes.answerMs };
    const [slow = ''] = await cast.newRegisteredClients(1, endpoint.url);
    const clientTokens = await cast.newRegisteredClients(sizes.clients, theatre.receiverUrl);
    const live = (name: string, first: 'settle' | 'nothing') => {
      stage.say(name);
      return liveTraffic(theatre, {
        name,
        clientTokens,
        perSecond: sizes.clients,
        seconds: sizes.seconds,
        first,
      });
    };
    await live('warm-up', 'settle');
    const alone = await live('alone', 'settle');
    const from = monotonicMs();
    const flood = publishEvents(
      {
        baseUrl: stack.baseUrl,
        accessToken: cast.platform.accessToken,
        batchSize: 100,
        lanes: 4,
        perSecond: sizes.perSecond,
      },
      sizes.events,
      (i) => ({ client_token: slow, platform_id: `slow-${i}`, segments: [`iab:${i}`, 'mood:calm'] }),
    ).then(() => (monotonicMs() - from) / 1000);
    const during = await live('while-they-come-in', 'nothing');
    const floodSeconds = await flood;
    const beside = await live('while-they-are-owed', 'nothing');
    const { owed } = await getEndpoint(stack.db, slow);
    const again = await live('while-they-are-owed-2', 'nothing');
    await endpoint.close();
    return {
      tables: [
        {
          title: `${sizes.clients} clients with one event a second each, beside one with ${sizes.events} events whose endpoint takes ${sizes.answerMs / 1000} s`,
          head: latencyHead,
          rows: [
            latencyRow('without it', alone),
            latencyRow(`while its events come in (${sizes.perSecond}/s)`, during),
            latencyRow('while they are owed', beside),
            latencyRow('once more', again),
            ratioRow('while they come in / without', during, alone),
            ratioRow('while they are owed / without', beside, alone),
            ratioRow('once more / without', again, alone),
          ],
        },
        {
          title: 'The slow client',
          head: ['', ''],
          rows: [
            ['seconds in which its events were accepted', floodSeconds],
            ['owed after the first measurement beside it', owed],
            ['POSTs in flight to it at one time, at most', endpoint.mostInFlight],
          ],
        },
      ],
    };
  },
};
