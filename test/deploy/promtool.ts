/** The rules of alerts.yml, tried by promtool over series. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { projectDir } from '../../src/operator/npmStart.js';
import { newFolder } from '../servers.js';
import { everySeconds } from './life.js';

/** By the series, its values in the notation of promtool, one each 15 s. */
export type Series = Record<string, string>;

/** At which second an alert fires at the latest, until when it goes on, and when it has ended. Every fault begins at 60. */
export interface Expected {
  by: number;
  until: number;
  ended: number;
  /** Its summary then. */
  says?: RegExp;
}

/** By the alert, without the beginning of its name. */
export type Fires = Record<string, Expected>;

/** Returns the alerts that must fire at a second, and those that may: they have begun, or have not ended yet. */
function alertsAt(fires: Fires, second: number): { must: string[]; may: string[] } {
  const all = Object.entries(fires);
  const must = all.flatMap(([alert, { by, until }]) => (second >= by && second <= until ? [alert] : []));
  const may = all.flatMap(([alert, { ended }]) =>
    second >= 60 && second <= ended && !must.includes(alert) ? [alert] : [],
  );
  return { must, may };
}

export const rules = join(projectDir, 'deploy/prometheus/alerts.yml');

export const isThere = spawnSync('promtool', ['--version']).status === 0;

const inputOf = (series: Series) => Object.entries(series).map(([one, values]) => ({ series: one, values }));

/** Has promtool try the rules, once for a life: that takes most of a second. @returns what it says if a test fails; else empty */
async function promtool(series: Series, test: object, file: string): Promise<string> {
  const interval = `${everySeconds}s`;
  const tests = [{ interval, input_series: inputOf(series), ...test }];
  const all = { rule_files: [file], evaluation_interval: interval, tests };
  const own = join(await newFolder(), 'test.yml');
  // JSON is YAML, too.
  await writeFile(own, JSON.stringify(all));
  const { status, stdout, stderr } = spawnSync('promtool', ['test', 'rules', own], { encoding: 'utf8' });
  return status === 0 ? '' : stdout + stderr;
}

/** Has promtool judge the rules over some time: what is expected fires, and nothing else. @param matchers of the alerts that are looked at */
export async function judge(
  { series, seconds, fires }: { series: Series; seconds: number; fires: Fires },
  file = rules,
  matchers = '',
): Promise<void> {
  const times = Array.from({ length: seconds / everySeconds }, (_, i) => i * everySeconds);
  const promql_expr_test = times.map((second) => {
    const { must, may } = alertsAt(fires, second);
    const others = `alertstate="firing",alertname!~"AssetUpdate(${may.join('|')})"${matchers}`;
    return {
      expr: `count by (alertname) (ALERTS{${others}}) > bool 0`,
      eval_time: `${second}s`,
      exp_samples: must.map((alert) => ({ labels: `{alertname="AssetUpdate${alert}"}`, value: 1 })),
    };
  });
  const said = Object.entries(fires).filter(([, { says }]) => says);
  const alert_rule_test = said.map(([alert, { until }]) => shownAt(alert, until));
  const out = await promtool(series, { promql_expr_test, alert_rule_test }, file);
  if (said.length === 0) assert.equal(out, '');
  assert.doesNotMatch(out, /^ +expr:/m);
  for (const [, { says = /./ }] of said) assert.match(out, says);
}

/** What fails, and shows the summary of an alert. */
const shownAt = (alert: string, second: number) => {
  return { alertname: `AssetUpdate${alert}`, eval_time: `${second}s`, exp_alerts: [] };
};

/** Returns what promtool says of an alert at a second, as it does if none is expected. */
export const told = (series: Series, alert: string, second: number): Promise<string> =>
  promtool(series, { alert_rule_test: [shownAt(alert, second)] }, rules);
