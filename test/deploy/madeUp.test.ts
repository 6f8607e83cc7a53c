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
const apart = { ...quiet('a', 'api'), ...quiet('b', 'worker') };

const redisRefuses = (reason: string, seconds: number): Series => ({
  [`asset_update_redis_refusing${labels('a', `reason="${reason}",`)}`]: during(1, seconds),
});
/** A right that no event needs is missing from the beginning. */
const lesserRight: Series = {
  [`asset_update_redis_refusing${labels('a', 'reason="right",')}`]: '1x300',
  [`asset_update_redis_refusing_lesser${labels('a', 'reason="right",')}`]: '1x300',
};
const firstAttempts = 'asset_update_accept_to_first_attempt_seconds';
/** Of 10 first attempts each 15 s 3 begin late, for 10 minutes. */
const late: Series = {
  [`${firstAttempts}_count${labels('a', 'priority="live",')}`]: '0+10x300',
  [`${firstAttempts}_bucket${labels('a', 'priority="live",le="1",')}`]: rising(10, 7, 600),
};
const isLate: Fires = { FirstAttemptsLate: { by: 285, until: 660, ended: 930 } };
const ownFailures = (cause: string): Series => ({
  [`asset_update_own_failure_clients${labels('a', `cause="${cause}",`)}`]: of(1, 4500),
});
const temporalRefuses = (reason: string, seconds: number): Series => ({
  [`asset_update_temporal_refusing${labels('a', `reason="${reason}",`)}`]: during(1, seconds),
});
/** Redis takes 200 ms for each command of both processes. */
const slow = Object.fromEntries(
  ['a', 'b'].flatMap((instance) => {
    const bucket = (le: string) =>
      `asset_update_redis_command_duration_seconds_bucket${labels(instance, `le="${le}",`)}`;
    return [
      [bucket('0.1'), '0x300'],
      [bucket('0.25'), '0+100x300'],
      [bucket('+Inf'), '0+100x300'],
    ];
  }),
);
const calls500 = (route: string): string =>
  `asset_update_http_request_duration_seconds_count${labels('a', `method="POST",route="${route}",status="500",`)}`;
const always = { by: 60, until: Infinity, ended: Infinity };

const lives: Record<string, { series: Series; seconds: number; fires: Fires }> = {
  'Temporal away for 40 minutes, where every API is a worker': {
    series: { ...both, ...temporalRefuses('away', 2400) },
    seconds: 3000,
    fires: {
      TemporalAway: { by: 150, until: 2445, ended: 2475 },
      TemporalStaysAway: { by: 1875, until: 2445, ended: 2475 },
    },
  },
  'Temporal away for 40 minutes, with separate roles': {
    series: { ...apart, ...temporalRefuses('away', 2400) },
    seconds: 3000,
    fires: {
      TemporalAway: { by: 150, until: 2445, ended: 2475 },
      FirstAttemptsWait: { by: 375, until: 2445, ended: 2475 },
    },
  },
  'Temporal refuses starts to separate roles': {
    series: { ...apart, ...temporalRefuses('credentials', 600) },
    seconds: 900,
    fires: {
      TemporalRefusing: { by: 225, until: 645, ended: 675 },
      FirstAttemptsWait: { by: 375, until: 645, ended: 675 },
    },
  },
  'no worker while Temporal is away': {
    series: { ...quiet('a', 'api'), ...temporalRefuses('away', 240) },
    seconds: 420,
    fires: {
      NoWorker: { by: 120, until: 420, ended: 420 },
      TemporalAway: { by: 150, until: 285, ended: 315 },
    },
  },
  'Redis slow, and first attempts late': {
    series: { ...both, ...slow, ...late },
    seconds: 960,
    fires: { ...isLate, RedisSlow: { by: 330, until: 960, ended: 960 } },
  },
  'a secret of one client is gone, and first attempts late': {
    series: { ...both, ...ownFailures('secrets'), ...late },
    seconds: 960,
    fires: { ...isLate, OwnFailures: { by: 120, until: 960, ended: 960 } },
  },
  'no name is resolved, and first attempts late': {
    series: { ...both, ...ownFailures('resolver'), ...late },
    seconds: 960,
    fires: { OwnFailures: { by: 120, until: 960, ended: 960 } },
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
  'broken keys of one client, and after half an hour errors of another route': {
    series: {
      ...both,
      [`asset_update_broken_clients${labels('a')}`]: during(1, 3000),
      [calls500('/oauth/access_token')]: `${of('_', 1800)} 1+4x40 165x100`,
    },
    seconds: 2700,
    fires: {
      BrokenClients: { by: 75, until: 2700, ended: 2700 },
      ServerErrors: { by: 1905, until: 2400, ended: 2640 },
    },
  },
  'new broken keys of one client, and errors of its calls': {
    series: {
      ...both,
      [`asset_update_broken_clients${labels('a')}`]: during(1, 300),
      [calls500('/enrichments')]: `${of('_', 60)} 1+4x20 81x100`,
    },
    seconds: 900,
    fires: { BrokenClients: { by: 75, until: 345, ended: 435 } },
  },
  'a container that is gone, and its target with it': {
    series: {
      ...both,
      [`up${labels('b')}`]: '1x79 stale',
      [`process_start_time_seconds${labels('b')}`]: '_',
    },
    seconds: 2700,
    fires: { ProcessGone: { by: 1320, until: 1800, ended: 2130 } },
  },
  'a change of release, with two processes more for 10 minutes': {
    series: {
      ...both,
      ...Object.fromEntries(['c', 'd'].map((one) => [`up${labels(one)}`, '_x80 1x39 stale'])),
    },
    seconds: 2700,
    fires: {},
  },
  'a process that begins anew every 9 minutes': {
    series: {
      ...both,
      [`process_start_time_seconds${labels('b')}`]: [60, 600, 1140, 1680, 2220]
        .map((at) => of(at, 540))
        .join(' '),
    },
    seconds: 2700,
    fires: { CrashLoop: { by: 1635, until: 2700, ended: 2700 } },
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
