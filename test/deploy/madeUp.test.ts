/** The shipped rules over lives that are made up: what takes too long to record, and two faults at once. None may hide the other. */
import { type Fires, isThere, judge, type Series } from './promtool.js';

/** So many seconds of a value, as scrapes. */
const of = (value: number | string, seconds: number): string => {
  const times = Math.max(1, Math.round(seconds / 15));
  return value === '_' ? `_x${times}` : `${value}x${times - 1}`;
};
/** A value until the fault begins at 60 s, another for a while, and the first again. */
const during = (value: number | string, seconds: number, usual: number | string = 0): string =>
  [of(usual, 60), of(value, seconds), of(usual, 3600)].join(' ');
/** A counter that rises so much each scrape: until 60 s, for a while, and from then on. */
const rising = (...[before, meanwhile, seconds]: [number, number, number]): string => {
  const [first, then] = [4 * before, Math.round(seconds / 15) * meanwhile];
  return `0+${before}x3 ${first}+${meanwhile}x${Math.round(seconds / 15) - 1} ${first + then}+${before}x240`;
};

const labels = (instance: string, more = '') => `{${more}instance="${instance}",job="asset-update"}`;
type Role = 'all' | 'api' | 'worker';
/** What a process shows that has nothing to say. */
const quiet = (instance: string, role: Role = 'all'): Series => ({
  [`up${labels(instance)}`]: '1x300',
  [`process_start_time_seconds${labels(instance)}`]: '-900x300',
  [`asset_update_sweep_completed_timestamp_seconds${labels(instance)}`]: '0+15x300',
  ...(role !== 'worker' && { [`asset_update_updates_waiting_calls${labels(instance)}`]: '0x300' }),
  ...(role !== 'api' && { [`asset_update_upkeep_under_way${labels(instance)}`]: '0x300' }),
});
const both = { ...quiet('a'), ...quiet('b') };

const redisRefuses = (reason: string, seconds: number): Series => ({
  [`asset_update_redis_refusing${labels('a', `reason="${reason}",`)}`]: during(1, seconds),
});
/** A right that no event needs is missing from the beginning. */
const lesserRight: Series = {
  [`asset_update_redis_refusing${labels('a', 'reason="right",')}`]: '1x300',
  [`asset_update_redis_refusing_lesser${labels('a', 'reason="right",')}`]: '1x300',
};
const temporalAway = (seconds: number): Series => ({
  [`asset_update_temporal_refusing${labels('a', 'reason="away",')}`]: during(1, seconds),
});
const always = { by: 60, until: Infinity, ended: Infinity };

const lives: Record<string, { series: Series; seconds: number; fires: Fires }> = {
  'nothing, an hour': { series: both, seconds: 3600, fires: {} },
  'Temporal away for 40 minutes, where every API is a worker': {
    series: { ...both, ...temporalAway(2400) },
    seconds: 3000,
    fires: {
      TemporalAway: { by: 150, until: 2445, ended: 2475 },
      TemporalStaysAway: { by: 1875, until: 2445, ended: 2475 },
    },
  },
  'Temporal away for 40 minutes, with separate roles': {
    series: {
      ...quiet('a', 'api'),
      ...quiet('b', 'worker'),
      ...temporalAway(2400),
    },
    seconds: 3000,
    fires: {
      TemporalAway: { by: 150, until: 2445, ended: 2475 },
      FirstAttemptsWait: { by: 375, until: 2445, ended: 2475 },
    },
  },
  'Temporal refuses starts to separate roles': {
    series: {
      ...quiet('a', 'api'),
      ...quiet('b', 'worker'),
      [`asset_update_temporal_refusing${labels('a', 'reason="credentials",')}`]: during(1, 600),
    },
    seconds: 900,
    fires: {
      TemporalRefusing: { by: 225, until: 645, ended: 675 },
      FirstAttemptsWait: { by: 375, until: 645, ended: 675 },
    },
  },
  'no worker while Temporal is away': {
    series: { ...quiet('a', 'api'), ...temporalAway(240) },
    seconds: 420,
    fires: {
      NoWorker: { by: 120, until: 420, ended: 420 },
      TemporalAway: { by: 150, until: 285, ended: 315 },
    },
  },
  'a right that no event needs is missing, and events are refused': {
    series: {
      ...both,
      ...lesserRight,
      [`asset_update_events_total${labels('a', 'result="unknown",')}`]: rising(0, 30, 600),
    },
    seconds: 840,
    fires: { RedisRefusingLesser: always, EventsRefused: { by: 240, until: 660, ended: 735 } },
  },
  'a right that events need is missing, and one that they do not': {
    series: {
      ...both,
      ...lesserRight,
      [`asset_update_redis_refusing${labels('b', 'reason="right",')}`]: during(1, 600),
      [`asset_update_events_total${labels('a', 'result="unknown",')}`]: rising(0, 30, 600),
    },
    seconds: 840,
    fires: { RedisRefusingLesser: always, RedisRefusing: { by: 135, until: 645, ended: 675 } },
  },
  'no API while Redis is away': {
    series: { ...quiet('a', 'worker'), ...redisRefuses('away', 600) },
    seconds: 600,
    fires: { NoApi: { by: 120, until: 600, ended: 600 }, RedisAway: { by: 150, until: 600, ended: 600 } },
  },
};

describe('The alerts over a made-up life', () => {
  for (const [name, life] of Object.entries(lives))
    it(`${name}: ${Object.keys(life.fires).join(', ') || 'none'}, and no other`, async function () {
      if (!isThere) this.skip();
      await judge(life);
    }).timeout(60_000);
});
