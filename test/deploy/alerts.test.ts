/** The shipped rules over recorded lives of the service (lives.ts): what fires, for how long, and that nothing else does. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { projectDir } from '../../src/operator/npmStart.js';
import { newFolder } from '../servers.js';
import { everySeconds, fileOf, lives } from './lives.js';

/** At which second an alert fires at the latest, until when it goes on, and when it has ended. Every fault begins at 60. */
interface Expected {
  by: number;
  until: number;
  ended: number;
  /** Its summary then. */
  says?: RegExp;
}

/** By the life: what fires, and nothing else. */
const expected: Record<string, Record<string, Expected>> = {
  quiet: {},
  'two receivers of three, 4 minutes': { ReceiversFailing: { by: 240, until: 300, ended: 420 } },
  'all receivers, 9 minutes': { ReceiversFailing: { by: 240, until: 600, ended: 675 } },
  'one large receiver, 10 minutes': { LargeReceiverFailing: { by: 420, until: 660, ended: 675 } },
  'an endpoint is suspended': { EndpointSuspended: { by: 180, until: 240, ended: 300 } },
  'Redis away, 60 s': {},
  'Redis away, 4 minutes': { RedisAway: { by: 180, until: 300, ended: 345 } },
  'Redis read-only, 4 minutes': { RedisRefusing: { by: 180, until: 300, ended: 345 } },
  'failover of Redis': {},
  'Redis full, 3 minutes': { RedisFull: { by: 120, until: 240, ended: 285 } },
  'Redis slow, 7 minutes': { EventsRefused: { by: 270, until: 480, ended: 570 } },
  // The receiver is closed for two minutes: what it is owed may be told, and that Redis is busy with the drain may not.
  'a drain of our own': { LargeReceiverFailing: { by: Infinity, until: 0, ended: 180 } },
  'Temporal away, 60 s': {},
  'Temporal away, 5 minutes': { TemporalAway: { by: 180, until: 345, ended: 375 } },
  'a crash loop': { CrashLoop: { by: 120, until: 465, ended: 480 } },
  'a process ends for good': { ProcessDown: { by: 150, until: 360, ended: 375 } },
  'the worker ends': {
    NoWorker: { by: 210, until: 360, ended: 375 },
    ProcessDown: { by: 150, until: 360, ended: 375 },
  },
  'a clock behind': { ClockWrong: { by: 150, until: 300, ended: 330 } },
  'a signing secret that is gone, 4 minutes': { OwnFailures: { by: 210, until: 300, ended: 345 } },
  'a wrong token, 3 calls a second': { CallsRefused: { by: 180, until: 240, ended: 300 } },
  'a client with broken keys': { BrokenClients: { by: 150, until: 300, ended: 390 } },
  'all data lost': { DataLost: { by: 90, until: 240, ended: 240 } },
};

/** Returns the alerts that must fire at a second, and those that may: they have begun, or have not ended yet. */
function alertsAt(name: string, second: number): { must: string[]; may: string[] } {
  const all = Object.entries(expected[name] ?? {});
  const must = all.flatMap(([alert, { by, until }]) => (second >= by && second <= until ? [alert] : []));
  const may = all.flatMap(([alert, { ended }]) =>
    second >= 60 && second <= ended && !must.includes(alert) ? [alert] : [],
  );
  return { must, may };
}

const rules = join(projectDir, 'deploy/prometheus/alerts.yml');

/** Has promtool try the rules. @returns what it says if a test fails; else empty */
async function promtool(test: object): Promise<string> {
  const interval = `${everySeconds}s`;
  const all = { rule_files: [rules], evaluation_interval: interval, tests: [{ interval, ...test }] };
  const file = join(await newFolder(), 'test.yml');
  // JSON is YAML, too.
  await writeFile(file, JSON.stringify(all));
  const { status, stdout, stderr } = spawnSync('promtool', ['test', 'rules', file], { encoding: 'utf8' });
  return status === 0 ? '' : stdout + stderr;
}

/** Has promtool judge the rules over a life: all is as expected. */
async function judge(name: string): Promise<void> {
  const life = lives[name];
  assert.ok(life);
  const series = JSON.parse(readFileSync(join(import.meta.dirname, 'life', fileOf(name)), 'utf8'));
  const input_series = Object.entries(series).map(([one, values]) => ({ series: one, values }));
  const seconds = Array.from({ length: life.seconds / everySeconds }, (_, i) => i * everySeconds);
  const promql_expr_test = seconds.map((second) => {
    const { must, may } = alertsAt(name, second);
    return {
      expr: `count by (alertname) (ALERTS{alertstate="firing",alertname!~"AssetUpdate(${may.join('|')})"}) > bool 0`,
      eval_time: `${second}s`,
      exp_samples: must.map((alert) => ({ labels: `{alertname="AssetUpdate${alert}"}`, value: 1 })),
    };
  });
  assert.equal(await promtool({ input_series, promql_expr_test }), '');
  for (const [alert, { until, says }] of Object.entries(expected[name] ?? {})) {
    // Told by promtool if no alert is expected.
    const none = [{ alertname: `AssetUpdate${alert}`, eval_time: `${until}s`, exp_alerts: [] }];
    if (says) assert.match(await promtool({ input_series, alert_rule_test: none }), says);
  }
}

describe('The alerts over a recorded life', () => {
  const isThere = spawnSync('promtool', ['--version']).status === 0;

  const recorded = readdirSync(join(import.meta.dirname, 'life'));
  for (const [name, fired] of Object.entries(expected)) {
    const fires = Object.keys(fired).join(', ') || 'none';
    it(`${name}: ${fires}, and no other`, async function () {
      if (!isThere) this.skip();
      await judge(name);
    }).timeout(60_000);
  }

  it('is judged for each recording', () => {
    assert.deepEqual(recorded.toSorted(), Object.keys(expected).map(fileOf).toSorted());
  });
});

const own = 'job="asset-update",instance="a"';
const up = { [`up{${own}}`]: '1x99' };
const histogram = (name: string, counts: Record<string, string>) =>
  Object.fromEntries(
    Object.entries(counts).map(([le, values]) => [`asset_update_${name}_bucket{le="${le}"}`, values]),
  );

/** Rules whose fault is not recorded: the series, in steps of 15 s; not yet at the first second, but at the second one with this text. */
const rows: [alert: string, series: Record<string, string>, not: number, at: number, summary: string][] = [
  [
    'SweepStalled',
    { asset_update_sweep_completed_timestamp_seconds: '0x99' },
    240,
    300,
    'No sweep has completed for 5m 0s',
  ],
  [
    'OwnFailures',
    { 'asset_update_own_failure_clients{cause="outside"}': '0x8 3x40' },
    225,
    300,
    'Clients to which no attempt can be made: 3 (outside)',
  ],
  ['ProcessDown', { 'up{job="asset-update",instance="b"}': '1x8 0x40' }, 150, 240, 'b does not answer'],
  [
    'WorkflowsFailing',
    { asset_update_failing_workflows: '0x8 2x40' },
    150,
    210,
    'Tasks of 2 workflows fail, and are tried again for ever',
  ],
  [
    'SweepPaused',
    { asset_update_sweep_schedule_paused: '0x8 1x40' },
    150,
    210,
    'Somebody has paused the schedule of the sweep',
  ],
  [
    'AccountingAbsent',
    { asset_update_upkeep_under_way: '0x40' },
    150,
    210,
    'No process reports when a sweep last completed',
  ],
  [
    'NoApi',
    { asset_update_updates_waiting_calls: '0x4 _x60' },
    150,
    600,
    'No process with an API is scraped',
  ],
  [
    'EventsRefused',
    { 'asset_update_events_total{result="unknown"}': '0x4 0+15x40' },
    180,
    300,
    '1.0 events a second are answered with 503',
  ],
  [
    'RedisSlow',
    histogram('redis_command_duration_seconds', { '0.1': '0+98x60', '0.5': '0+100x60', '+Inf': '0+100x60' }),
    270,
    360,
    'One Redis command in a hundred has taken longer than 300ms for 5 minutes',
  ],
  [
    'RedisFilling',
    { asset_update_redis_memory_used_bytes: '70x2 90x60', asset_update_redis_memory_limit_bytes: '100x60' },
    270,
    360,
    'Redis uses 90% of its memory',
  ],
  [
    'RedisEvicting',
    { asset_update_redis_evicted_keys: '0x2 12345x10' },
    30,
    60,
    'Redis has evicted 12345 keys',
  ],
  [
    'ServerErrors',
    { 'asset_update_http_request_duration_seconds_count{route="/clients",status="500"}': '_x4 1x30' },
    90,
    180,
    'Calls of /clients that were answered with 500 in 5 minutes: 1',
  ],
  [
    'EventsWithoutWorkflow',
    { asset_update_events_without_workflow_total: '0x4 0+7x40' },
    105,
    300,
    'Accepted events that got no workflow in 5 minutes: 105',
  ],
  [
    'TemporalRefusing',
    { 'asset_update_temporal_errors_total{call="start",error="limit"}': '0+1x60' },
    300,
    360,
    'Temporal answers, and refuses calls: limit',
  ],
  [
    'TemporalCertificateEnds',
    { 'asset_update_temporal_certificates_end_timestamp_seconds{instance="a"}': '605100x40' },
    300,
    360,
    'The certificates that a uses for Temporal end in 6d 23h 59m 0s',
  ],
  [
    'TemporalCertificateEnds',
    { 'asset_update_temporal_certificates_end_timestamp_seconds{instance="a"}': '700000x2 50x40' },
    15,
    60,
    'The certificates that a uses for Temporal have ended',
  ],
  [
    'FirstAttemptsLate',
    {
      'asset_update_accept_to_first_attempt_seconds_bucket{priority="live",le="1"}': '0+80x60',
      'asset_update_accept_to_first_attempt_seconds_count{priority="live"}': '0+100x60',
    },
    120,
    180,
    '20% of the first attempts of the last 5 minutes began too late',
  ],
  [
    'ObjectiveMissed',
    {
      'asset_update_accept_to_first_attempt_seconds_bucket{priority="live",le="1"}': '0+98x60',
      'asset_update_accept_to_first_attempt_seconds_count{priority="live"}': '0+100x60',
    },
    300,
    360,
    '2% of the first attempts of the last hour began too late',
  ],
  [
    'Late',
    { asset_update_oldest_overdue_seconds: '0x2 600x60', asset_update_counts_age_seconds: '5x60' },
    150,
    180,
    'Something could have been sent to a client for 10m 0s',
  ],
  [
    'CertificateRefused',
    { 'asset_update_failing_endpoints{error="tls"}': '0x2 1x60', asset_update_attempted_endpoints: '9x60' },
    330,
    360,
    'Endpoints that fail at the certificate of the receiver: 1',
  ],
  [
    'ReceiversSlow',
    {
      'asset_update_attempt_duration_seconds_count{outcome="delivered"}': '0+100x60',
      'asset_update_attempt_duration_seconds_bucket{outcome="delivered",le="5"}': '0+70x60',
    },
    750,
    780,
    '2.0 attempts a second take longer than 5 s',
  ],
  [
    'AssetsFailed',
    { asset_update_failed_assets: '0x2 450x20' },
    30,
    60,
    '450 assets failed in the last day: their receivers were not told of them',
  ],
  [
    'ClockWrong',
    { 'asset_update_clock_seconds{instance="a"}': '60+15x40' },
    45,
    75,
    'The clock of a is 1m 0s ahead',
  ],
  [
    'EventLoopSlow',
    { [`nodejs_eventloop_lag_p99_seconds{${own}}`]: '0.02x2 1x40' },
    330,
    360,
    'The event loop of a is late by 1s',
  ],
  [
    'ScrapedSeldom',
    { [`up{${own}}`]: '1 _x3 '.repeat(12) },
    525,
    555,
    'a is scraped too seldom: 2 times in 2 minutes',
  ],
];

describe('A rule', () => {
  for (const [alert, series, not, at, summary] of rows)
    it(`of alerts.yml fires: ${alert}: ${summary}`, async function () {
      if (spawnSync('promtool', ['--version']).status !== 0) this.skip();
      const all = Object.entries({ ...up, ...series }).map(([one, values]) => ({ series: one, values }));
      const firing = (second: number, exp_samples: object[]) => ({
        expr: `count(ALERTS{alertstate="firing",alertname="AssetUpdate${alert}"}) > bool 0`,
        eval_time: `${second}s`,
        exp_samples,
      });
      const fires = [firing(not, []), firing(at, [{ labels: '{}', value: 1 }])];
      assert.equal(await promtool({ input_series: all, promql_expr_test: fires }), '');
      // Told by promtool if no alert is expected.
      const alerts = [{ alertname: `AssetUpdate${alert}`, eval_time: `${at}s`, exp_alerts: [] }];
      const told = await promtool({ input_series: all, alert_rule_test: alerts });
      assert.ok(told.includes(`summary="${summary}"`), told);
    }).timeout(60_000);
});
