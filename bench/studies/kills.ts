import { monotonicMs } from '../monotonicMs.js';
import { latencyHead, latencyRow, liveTraffic } from './liveTraffic.js';
import type { Study } from './study.js';

type Size = 'perSecond' | 'minutes' | 'killEverySeconds' | 'clients' | 'processes';

/** Measures the effect of `kill -9` of the service's processes on publishers and receivers. */
export const kills: Study<Size> = {
  name: 'kills',
  about: 'Live events at a fixed rate while API and worker are killed with SIGKILL again and again.',
  sizes: {
    perSecond: [200, 'live events, sent again with their event id until they are taken'],
    minutes: [10, 'of it'],
    killEverySeconds: [60, 'worker and API, at the same moment'],
    clients: [50, 'that are sent to'],
    processes: [1, 'API and worker in one; 2: each its own'],
  },
  async run(sizes, stage) {
    const split = sizes.processes === 2;
    const theatre = await stage.open({ split });
    const { stack, cast } = theatre;
    const clientTokens = await cast.newRegisteredClients(sizes.clients, theatre.receiverUrl);
    // Killed processes have no usage for the whole window.
    const { api, worker, service, ...lasting } = theatre.pids;
    const killed = split ? ['worker', 'api'] : ['service'];
    const seconds = sizes.minutes * 60;
    const from = monotonicMs();
    const away: number[] = [];
    let over = false;
    const traffic = liveTraffic(
      { ...theatre, pids: lasting },
      { name: 'kills', clientTokens, perSecond: sizes.perSecond, seconds, first: 'nothing' },
    ).finally(() => {
      over = true;
    });
    const times = Math.floor(seconds / sizes.killEverySeconds);
    for (let i = 1; i <= times; i++) {
      const at = from + (i - 0.5) * sizes.killEverySeconds * 1000;
      while (!over && monotonicMs() < at) await new Promise((resolve) => setTimeout(resolve, 50));
      if (over) break;
      const killedAt = monotonicMs();
      await Promise.all(killed.map((name) => stack.kill(name)));
      away.push(monotonicMs() - killedAt);
      stage.say(`killed worker and API (${i} of ${times}), back after ${Math.round(away.at(-1) ?? 0)} ms`);
    }
    const round = await traffic;
    const { accounting } = round.delivery ?? {};
    return {
      tables: [
        {
          title: `${sizes.perSecond} events a second for ${sizes.minutes} min, kill -9 of worker and API every ${sizes.killEverySeconds} s`,
          head: latencyHead,
          rows: [latencyRow('from when it was due', round)],
        },
        {
          title: 'What became of them',
          head: ['', ''],
          rows: [
            ['kills of worker and API', away.length],
            ['events that came due', sizes.perSecond * seconds],
            ['until both were ready again, ms, at most', Math.max(0, ...away)],
            ['missing', accounting?.missing ?? Number.NaN],
            ['received twice', accounting?.duplicates ?? Number.NaN],
            ['received under an id that no answer named', accounting?.unannounced ?? Number.NaN],
            ['given up by the publisher', round.givenUp],
            ...Object.entries(round.refusals).map(([what, n]) => [`not taken at first: ${what}`, n]),
          ],
        },
      ],
    };
  },
};
