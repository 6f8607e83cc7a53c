/** The shipped rules over recorded lives of the service (lives.ts): what fires, for how long, and that nothing else does. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { projectDir } from '../../src/operator/npmStart.js';
import { everySeconds, fileOf } from './life.js';
import { lives } from './lives.js';
import { type Fires, isThere, judge, rules, told } from './promtool.js';

/** By the life: what fires, and nothing else. */
const expected: Record<string, Fires> = {
  quiet: {},
  'two receivers of three, 4 minutes': { ReceiversFailing: { by: 240, until: 300, ended: 420 } },
  'all receivers, 9 minutes': { ReceiversFailing: { by: 240, until: 600, ended: 675 } },
  'one large receiver, 10 minutes': { LargeReceiverFailing: { by: 420, until: 660, ended: 675 } },
  'an endpoint is suspended': { EndpointSuspended: { by: 180, until: 240, ended: 300 } },
  'Redis away, 60 s': {},
  'Redis away, 4 minutes': { RedisAway: { by: 180, until: 300, ended: 345 } },
  'Redis read-only, 8 minutes': { RedisRefusing: { by: 180, until: 540, ended: 585 } },
  'failover of Redis': {},
  'Redis full, 3 minutes': { RedisFull: { by: 120, until: 240, ended: 285 } },
  'Redis slow, 7 minutes': {
    EventsRefused: { by: 270, until: 480, ended: 570, says: /\d\.\d events a second are answered with 503/ },
  },
  // The receiver is closed for two minutes: what it is owed may be told, and that Redis is busy with the drain may not.
  'a drain of our own': { LargeReceiverFailing: { by: Infinity, until: 0, ended: 180 } },
  'Temporal away, 60 s': {},
  'Temporal away, 5 minutes': { TemporalAway: { by: 180, until: 345, ended: 375 } },
  'Temporal away, roles apart, 7 minutes': {
    TemporalAway: { by: 180, until: 465, ended: 495 },
    FirstAttemptsWait: { by: 390, until: 465, ended: 495 },
  },
  'a right that no event needs, 4 minutes': {
    RedisRefusingLesser: { by: 150, until: 300, ended: 345, says: /refuses what no event needs: right/ },
  },
  'a crash loop': { CrashLoop: { by: 120, until: 480, ended: 480 } },
  'a process ends for good': { ProcessDown: { by: 150, until: 360, ended: 375 } },
  'the worker ends': {
    NoWorker: { by: 210, until: 360, ended: 375 },
    ProcessDown: { by: 150, until: 360, ended: 375 },
  },
  'a clock behind': {
    ClockWrong: { by: 150, until: 300, ended: 330, says: /The clock of b is 1m (29|30)\.?\d*s behind/ },
  },
  'a signing secret that is gone, 4 minutes': {
    OwnFailures: { by: 210, until: 300, ended: 345, says: /a process can make no attempt: 1 \(secrets\)/ },
  },
  'a wrong token, 3 calls a second': {
    CallsRefused: { by: 180, until: 240, ended: 300, says: /\d\.\d calls a second are answered with 401/ },
  },
  'a client with broken keys': { BrokenClients: { by: 150, until: 300, ended: 390 } },
  'all data lost': { DataLost: { by: 90, until: 240, ended: 240 } },
  'the API ends': {
    NoApi: { by: 210, until: 360, ended: 390 },
    ProcessDown: { by: 150, until: 360, ended: 390, says: /a does not answer/ },
  },
  'Redis answers after 150 ms, 6 minutes': {
    RedisSlow: {
      by: 405,
      until: 450,
      ended: 525,
      says: /One Redis command in a hundred has taken longer than \d{3}(\.\d+)?ms for 5 minutes/,
    },
  },
  'Redis fills, then evicts, and a process is scraped each minute': {
    RedisFilling: { by: 420, until: 540, ended: 570, says: /Redis uses 8\d\.?\d*% of its memory/ },
    RedisEvicting: { by: 630, until: 720, ended: 750, says: /Redis has evicted \d+ keys/ },
    ScrapedSeldom: { by: 555, until: 570, ended: 630, says: /b is scraped too seldom: 2 times in 2 minutes/ },
  },
  'a workflow of another release, then a paused sweep': {
    WorkflowsFailing: { by: 165, until: 240, ended: 285, says: /Tasks of \d workflows fail/ },
    SweepPaused: { by: 405, until: 660, ended: 690 },
  },
  'keys of the service that another program has taken': {
    ServerErrors: {
      by: 180,
      until: 300,
      ended: 495,
      says: /Calls of \/source_addresses .* in 5 minutes: \d+/,
    },
    SweepStalled: { by: 360, until: 480, ended: 510, says: /No sweep has completed for \d+m/ },
    AccountingAbsent: { by: 735, until: 795, ended: 840 },
  },
  'a search attribute of another type, 8 minutes': {
    TemporalRefusing: { by: 240, until: 570, ended: 600, says: /refuses calls: invalid/ },
    Late: { by: 555, until: 570, ended: 630, says: /could have been sent to a client for \d+m/ },
  },
  'starts of workflows that take 1.4 s, 5 minutes': {
    FirstAttemptsLate: {
      by: 300,
      until: 360,
      ended: 435,
      says: /\d+(\.\d+)?% of the first attempts of the last 5/,
    },
  },
  'starts of workflows that take 8 s, and large events': {
    EventsWithoutWorkflow: { by: 315, until: 345, ended: 435, says: /no workflow in 5 minutes: \d+/ },
  },
  'a worker that stands still for 1.6 s of 15': {
    ObjectiveMissed: {
      by: 405,
      until: 420,
      ended: 735,
      says: /% of the first attempts of the last hour began/,
    },
  },
  'a process that stands still for 0.8 s of each': {
    EventLoopSlow: {
      by: 420,
      until: 480,
      ended: 510,
      says: /The event loop of b is late by 8\d\d(\.\d+)?ms/,
    },
  },
  'a slow receiver, and one with an expired certificate': {
    CertificateRefused: { by: 435, until: 600, ended: 660, says: /at the certificate of the receiver: 1/ },
    AssetsFailed: { by: 405, until: 600, ended: 690, says: /\d+ assets failed in the last day/ },
    ReceiversSlow: { by: 810, until: 825, ended: 915, says: /\d\.\d attempts a second take longer than 5 s/ },
  },
  'certificates for Temporal that end': {
    OwnCertificateEnds: {
      by: 90,
      until: 225,
      ended: 255,
      says: /that b uses for Temporal or Redis end in 6d 23h/,
    },
  },
};

describe('The alerts over a recorded life', () => {
  const recorded = readdirSync(join(import.meta.dirname, 'life'));
  for (const [name, fires] of Object.entries(expected)) {
    it(`${name}: ${Object.keys(fires).join(', ') || 'none'}, and no other`, async function () {
      if (!isThere) this.skip();
      const series = JSON.parse(readFileSync(join(import.meta.dirname, 'life', fileOf(name)), 'utf8'));
      await judge({ series, seconds: lives[name]?.seconds ?? Number.NaN, fires });
    }).timeout(60_000);
  }

  it('is judged for each recording', () => {
    assert.deepEqual(recorded.toSorted(), Object.keys(expected).map(fileOf).toSorted());
  });
});

/** Rules whose fault is in no recorded life, and why. They fire in a made-up one (madeUp.test.ts). */
const withoutLife: Record<string, string> = {
  AssetUpdateTemporalStaysAway: 'it takes more than half an hour',
  AssetUpdateProcessGone: 'what is recorded has fixed targets',
};

/** Warnings that may silence what wakes somebody, and why; else only what wakes somebody may. */
const mayBeSilencedBy: Record<string, Record<string, string>> = {
  AssetUpdateSweepStalled: {
    TemporalAway: 'AssetUpdateTemporalStaysAway wakes somebody after 30 minutes',
    TemporalRefusing: 'as TemporalAway',
    SweepPaused: 'somebody has paused it',
  },
  AssetUpdateAccountingAbsent: {
    TemporalAway: 'AssetUpdateTemporalStaysAway wakes somebody after 30 minutes',
    TemporalRefusing: 'as TemporalAway',
  },
};
/** Alerts that may be about one client alone, and what is taken of them: a cause that concerns everybody, or their beginning. */
const ofOneClient: Record<string, RegExp> = {
  BrokenClients: /unless on \(\) ALERTS\{[^}]*"AssetUpdateBrokenClients"\} offset 10m/,
  OwnFailures: /,cause=~"\|descriptors\|network\|outside\|proxy\|resolver"\}/,
};

interface Rule {
  alert?: string;
  expr: string;
  labels?: { severity: string };
}

describe('Each rule', () => {
  const { groups } = parse(readFileSync(rules, 'utf8')) as { groups: { interval: string; rules: Rule[] }[] };
  const alerts = groups.flatMap((group) => group.rules.filter(({ alert }) => alert !== undefined));
  const severityOf = (name: string) =>
    alerts.find(({ alert }) => alert === `AssetUpdate${name}`)?.labels?.severity;
  /** The alerts that silence a rule. */
  const silencing = (expr: string): string[] =>
    [...expr.matchAll(/alertname=~?"AssetUpdate\(?([\w|]+)\)?"/g)].flatMap(([, names = '']) =>
      names.split('|'),
    );

  it('fires in a recorded life, or it is said why it does not', () => {
    const fired = Object.values(expected).flatMap((life) =>
      Object.entries(life).flatMap(([alert, { by }]) => (by < Infinity ? [`AssetUpdate${alert}`] : [])),
    );
    const missing = alerts.map(({ alert = '' }) => alert).filter((alert) => !fired.includes(alert));
    assert.deepEqual(missing.toSorted(), Object.keys(withoutLife).toSorted());
  });

  it('that wakes somebody is silenced by others that do, or it is said why not', () => {
    const critical = alerts.filter(({ labels }) => labels?.severity === 'critical');
    assert.ok(critical.filter(({ expr }) => silencing(expr).length > 0).length > 3);
    for (const { alert = '', expr } of critical) {
      const lesser = silencing(expr).filter((name) => severityOf(name) !== 'critical');
      assert.deepEqual(lesser.toSorted(), Object.keys(mayBeSilencedBy[alert] ?? {}).toSorted(), alert);
    }
  });

  it('is silenced only by alerts that there are, and by one about a client only as far as it concerns others', () => {
    for (const { alert, expr } of alerts)
      for (const name of silencing(expr)) {
        assert.ok(severityOf(name), `${alert}: ${name}`);
        if (ofOneClient[name]) assert.match(expr, ofOneClient[name], alert);
      }
  });

  it('is evaluated as often as its times suppose, also where nobody has set that', () => {
    const prometheus = readFileSync(join(projectDir, 'deploy/prometheus/prometheus.yml'), 'utf8');
    const { scrape_interval, evaluation_interval } = parse(prometheus).global;
    const intervals = [scrape_interval, evaluation_interval, ...groups.map(({ interval }) => interval)];
    assert.deepEqual([...new Set(intervals)], [`${everySeconds}s`]);
  });
});

/** What a summary says otherwise than in a life: the series, and the summary after a minute and a quarter. */
const otherwise: [alert: string, series: Record<string, string>, summary: string][] = [
  [
    'OwnCertificateEnds',
    {
      'asset_update_temporal_certificates_end_timestamp_seconds{instance="a"}': '1e12x40',
      'asset_update_redis_certificate_end_timestamp_seconds{instance="a"}': '50x40',
    },
    'The certificates that a uses for Temporal or Redis have ended',
  ],
  ['ClockWrong', { 'asset_update_clock_seconds{instance="a"}': '60+15x40' }, 'The clock of a is 1m 0s ahead'],
];

describe('A summary', () => {
  for (const [alert, series, summary] of otherwise)
    it(`of alerts.yml: ${summary}`, async function () {
      if (!isThere) this.skip();
      assert.ok((await told(series, alert, 75)).includes(`summary="${summary}"`));
    }).timeout(60_000);
});
