import { getEndpoint } from '../../src/redis/records/endpoint.js';
import { type Usages, usageOf } from '../processUsage.js';
import { startEndpoint } from './endpoint.js';
import { latencyHead, latencyRow, liveTraffic, ratioRow } from './liveTraffic.js';
import { owe } from './owe.js';
import { publishEvents } from './publishEvents.js';
import { runningWorkflows } from './runningWorkflows.js';
import type { Study } from './study.js';
import { until } from './until.js';

type Size = 'assets' | 'clients' | 'perSecond' | 'seconds';

/** Measures the effect of one client's backlog on the others and on the processes. */
export const backlog: Study<Size> = {
  name: 'backlog',
  about: 'New traffic, and memory of API and worker, beside many assets owed to one client that is down.',
  sizes: {
    assets: [100_000, 'owed to the client that is down'],
    clients: [50, 'that take new traffic'],
    perSecond: [100, 'new events, over all of them'],
    seconds: [30, 'measured of each phase'],
  },
  async run(sizes, stage) {
    const theatre = await stage.open({ split: true });
    const { stack, cast } = theatre;
    const endpoint = await startEndpoint();
    endpoint.answer = 'reset';
    const [down = ''] = await cast.newRegisteredClients(1, endpoint.url);
    const clientTokens = await cast.newRegisteredClients(sizes.clients, theatre.receiverUrl);
    const live = (name: string) => {
      stage.say(name);
      return liveTraffic(theatre, {
        name,
        clientTokens,
        perSecond: sizes.perSecond,
        seconds: sizes.seconds,
        first: 'settle',
      });
    };
    stage.say('ten events make the endpoint fail');
    await publishEvents(
      { baseUrl: stack.baseUrl, accessToken: cast.platform.accessToken, batchSize: 10, lanes: 1 },
      10,
      (i) => ({ client_token: down, platform_id: `first-${i}`, segments: ['iab:1'] }),
    );
    await until('it is failing', 60_000, async () => (await getEndpoint(stack.db, down)).state === 'failing');
    await live('warm-up');
    const alone = await live('alone');
    const before = usageOf(stack.pids);
    stage.say(`${sizes.assets} assets become owed`);
    await owe(stack.db, down, sizes.assets, 'live');
    const owing = usageOf(stack.pids);
    const beside = await live('beside');
    const after = usageOf(stack.pids);
    const { owed } = await getEndpoint(stack.db, down);
    const running = await runningWorkflows(stack);
    await endpoint.close();
    const mb = (usages: Usages, name: string) => (usages[name]?.rssBytes ?? 0) / 2 ** 20;
    return {
      tables: [
        {
          title: `${sizes.perSecond} new events a second to ${sizes.clients} clients beside ${owed} assets owed to another`,
          head: latencyHead,
          rows: [
            latencyRow('without the backlog', alone),
            latencyRow('beside it', beside),
            ratioRow('beside it / without', beside, alone),
          ],
        },
        {
          title: 'Resident MB',
          head: ['', 'before', 'with the backlog', 'after the traffic beside it'],
          rows: Object.keys(stack.pids).map((name) => [
            name,
            mb(before, name),
            mb(owing, name),
            mb(after, name),
          ]),
        },
        {
          title: 'Running workflows',
          head: ['type', 'running'],
          rows: Object.entries(running),
        },
      ],
    };
  },
};
