/** The rules of the Helm chart: those of alerts.yml, for one release. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { newFolder } from '../../servers.js';
import { isThere, judge, type Series } from '../promtool.js';
import { isBuilt } from './isBuilt.mjs';
import { ofKind, rendered } from './rendered.js';

const namespaces = ['2026', 'production'] as const;

async function rulesOf(namespace: string, ...more: string[]) {
  const set = ['monitoring.prometheusRule.enabled=true', ...more].flatMap((one) => ['--set', one]);
  const [rule] = ofKind(await rendered('--namespace', namespace, ...set), 'PrometheusRule');
  return (rule?.spec.groups ?? []).map((group) => ({ ...group, name: `${namespace} ${group.name}` }));
}

/** A series of a process in a namespace. */
const of = (namespace: (typeof namespaces)[number], name: string, more = ''): string =>
  `${name}{${more}namespace="${namespace}",instance="${namespace}",job="asset-update"}`;

describe('the Helm chart, of its alerts,', () => {
  before(function () {
    if (!isBuilt()) this.skip();
  });

  it('has some of its own for each namespace: a fault in one silences nothing in another', async function () {
    if (!isThere) this.skip();
    const groups = (await Promise.all(namespaces.map((one) => rulesOf(one)))).flat();
    for (const { expr, labels } of groups.flatMap(({ rules }) => rules)) {
      const selectors = expr.match(/\b(asset_update[_:]|nodejs_|process_|up\{|ALERTS)[\w:]*\{?[^\s}]*/g);
      for (const one of selectors ?? []) assert.ok(one.includes(`{namespace="${labels?.namespace}"`), one);
      assert.ok(selectors || expr === 'vector(0.01)', expr);
    }
    const file = join(await newFolder(), 'rules.yml');
    await writeFile(file, stringify({ groups }));
    // One has no Redis; the other has no API, no sweep, and calls that are answered with 503.
    const series: Series = {
      [of('2026', 'up')]: '1x60',
      [of('2026', 'asset_update_updates_waiting_calls')]: '0x60',
      [of('2026', 'asset_update_upkeep_under_way')]: '0x60',
      [of('2026', 'asset_update_redis_refusing', 'reason="away",')]: '0x3 1x60',
      [of('production', 'up')]: '1x60',
      [of('production', 'asset_update_upkeep_under_way')]: '0x60',
      [of('production', 'asset_update_events_total', 'result="unknown",')]: '0x3 0+30x60',
    };
    const from = (by: number) => ({ by, until: 600, ended: 600 });
    const fires = {
      '2026': { RedisAway: from(150) },
      production: { NoApi: from(120), AccountingAbsent: from(180), EventsRefused: from(240) },
    };
    for (const one of namespaces)
      await judge({ series, seconds: 600, fires: fires[one] }, file, `,namespace="${one}"`);
  });

  it('has none about a process that is gone where an autoscaler ends some', async () => {
    const has = async (...set: string[]) =>
      (await rulesOf('a', ...set)).some(({ rules }) =>
        rules.some(({ alert }) => alert === 'AssetUpdateProcessGone'),
      );
    assert.deepEqual([await has(), await has('all.autoscaling.enabled=true')], [true, false]);
  });
});
