/** The first page of a site: how it stands, now and over the last day. */
import { type AttemptError, attemptErrors } from '../outgoing/details.js';
import { getNotification } from '../redis/notifications/notifications.js';
import {
  type AttemptStep,
  latencyBoundsMs,
  quantileMs,
  readAttempts,
  stepMs,
} from '../redis/records/attemptHistory.js';
import { type Endpoint, readStateChanges } from '../redis/records/endpoint.js';
import { requestHeaderNames } from '../redis/records/secrets.js';
import { type Html, html, type Piece } from './html.js';
import { table } from './page.js';
import { type SitePart, shownUrl } from './site.js';
import { count, exactly, faultInWords, fromNow, stateInWords } from './words.js';

/** GET /console/sites/{site} */
export const overview: SitePart = async (site, { db, config }) => {
  const { client, access, health, registration, here, reader } = site;
  const { clientToken } = client;
  const [changes, steps, headers] = await Promise.all([
    readStateChanges(db, clientToken),
    readAttempts(db, clientToken),
    requestHeaderNames(db, clientToken),
  ]);
  const rows = changes.map(({ at, from, to, why, by }) => ({
    cells: [exactly(at), stateInWords(from), stateInWords(to), `${why}${reader.changedBy[by]}`],
  }));
  const { lastFailedId } = health;
  const isKept = lastFailedId !== undefined && (await getNotification(db, clientToken, lastFailedId));
  const failed = `${here}/notifications${isKept ? `/${lastFailedId}` : health.owed > 0 ? '?state=waiting' : ''}`;
  return [
    html`<dl class="facts">
<dt>Sent to</dt><dd>${registration ? shownUrl(access, registration) : 'nowhere'}</dd>
${config.SOURCE_ADDRESSES.length > 0 && html`<dt>Sent from</dt><dd>${config.SOURCE_ADDRESSES.join(', ')}</dd>`}
<dt>Client token</dt><dd><code>${clientToken}</code></dd>
${headerRow('Added headers', headers.sent, 'sent with each notification; their values are not shown')}
${headerRow('Headers that wait', headers.waiting, 'for a URL that a caller who may set headers registers')}
${headerRow('Headers left behind', headers.left, 'with the former URL, and not sent: set them again for this one')}
${health.deliveredUntil && html`<dt>Delivered until</dt><dd>${exactly(health.deliveredUntil)}${exceptions(health)}</dd>`}
${health.owedSince && html`<dt>Oldest waiting</dt><dd>since ${exactly(health.owedSince)}</dd>`}
${health.replay && html`<dt>Replay</dt><dd>${replayInWords(health.replay)}</dd>`}
<dt>Last success</dt><dd>${fromNow(health.lastSuccessAt)}</dd>
<dt>Last failure</dt><dd>${fromNow(health.lastFailureAt)}${health.lastFailureAt && html`: <a href="${failed}">${faultInWords(health) || 'see the attempts'}</a>`}</dd>
</dl>
<h2>The last day</h2>`,
    lastDay(steps),
    changes.length > 0 && html`<h2>Changes of state</h2>`,
    changes.length > 0 && table('Changes of state', ['When', 'From', 'To', 'Why'], rows),
  ];
};

const replayInWords = ({ since, untilMs, runs, at, count: found }: NonNullable<Endpoint['replay']>): Piece =>
  html`${exactly(since)} to ${exactly(untilMs)}: ${count(found, 'video', 'videos')} sent again${runs ? html` so far, up to updates of ${exactly(Math.min(at, untilMs))}` : ', ended'}`;

/** Says what the time does not count. */
const exceptions = ({ failed, cancelled }: Endpoint): Piece =>
  failed + cancelled > 0 &&
  html`, except ${[failed > 0 && `${failed} failed`, cancelled > 0 && `${cancelled} cancelled in the last 14 days`].filter(Boolean).join(', ')}`;

const headerRow = (title: string, names: readonly string[], what: string): Piece =>
  names.length > 0 &&
  html`<dt>${title}</dt><dd>${names.map((name, i) => html`${i > 0 && ', '}<code>${name}</code>`)}, ${what}</dd>`;

/** Shows the attempts of the last day: how many succeeded and failed, why, and how long they took. */
export function lastDay(steps: readonly AttemptStep[]): Piece {
  const failed = total(steps.flatMap((step) => Object.values(step.failed)));
  const succeeded = total(steps.map(({ delivered }) => delivered));
  if (failed + succeeded === 0) return html`<p>No attempt.</p>`;
  const classes = [...new Set(steps.flatMap((step) => Object.keys(step.failed)))].sort();
  const within = (share: number) => steps.map((step) => quantileMs(step.latency, share) ?? 0);
  const median = { name: 'median', tint: 5, values: within(0.5) };
  const most = { name: '95th percentile', tint: 4, values: within(0.95) };
  return [
    html`<p>${count(succeeded, 'attempt')} succeeded and ${failed.toLocaleString('en')} failed: success rate ${rateOf(succeeded, failed)} %.</p>`,
    plot(`Attempts that succeeded, in ${stepMs / 60_000} minutes`, steps, [
      { name: 'succeeded', tint: 1, values: steps.map((step) => step.delivered) },
    ]),
    failed > 0 &&
      plot(
        'Attempts that failed, by error class',
        steps,
        classes.map((name) => ({
          name,
          // A class has its own colour on every page.
          tint: firstClassTint + attemptErrors.indexOf(name as AttemptError),
          values: steps.map((step) => step.failed[name] ?? 0),
        })),
      ),
    plot('How long attempts took, ms', steps, [median, most], true),
    hourly(steps, classes),
  ];
}

const total = (values: readonly number[]): number => values.reduce((sum, n) => sum + n, 0);

/** In percent, rounded down: nothing but success is 100. */
const rateOf = (succeeded: number, failed: number): number =>
  Math.floor((1000 * succeeded) / (succeeded + failed)) / 10;

const firstClassTint = 6;

/** Draws each series upon those before it, a bar for each step, or each as a line. A tint is a colour of console.css. */
export function plot(
  caption: string,
  steps: readonly AttemptStep[],
  series: readonly { name: string; tint: number; values: readonly number[] }[],
  isLines = false,
): Html {
  const sums = steps.map(() => 0);
  const heights = steps.map((_, i) => {
    const values = series.map((one) => one.values[i] ?? 0);
    return isLines ? Math.max(...values) : total(values);
  });
  const most = Math.max(0, ...heights);
  const top = most || 1;
  const upTo = most === 0 ? 'none' : `up to ${most.toLocaleString('en')}`;
  const y = (value: number) => Math.round(1000 - (1000 * value) / top);
  const shapes = series.map(({ tint, values }) => {
    if (isLines) {
      const points = values.map((value, i) => value > 0 && `${values[i - 1] ? 'L' : 'M'}${i} ${y(value)}h1`);
      return html`<path class="line tint-${tint}" d="${points.filter(Boolean).join('')}"/>`;
    }
    const bars = values.map((value, i) => {
      const from = sums[i] ?? 0;
      sums[i] = from + value;
      return value === 0 ? '' : `M${i} ${y(from)}V${y(from + value)}h1V${y(from)}z`;
    });
    return html`<path class="tint-${tint}" d="${bars.join('')}"/>`;
  });
  const ticks = steps.filter((_, i) => i % (steps.length / 6) === 0).map(({ atMs }) => new Date(atMs));
  return html`<figure><figcaption>${caption}: ${series.map(({ name, tint }) => html`<span class="key tint-${tint}">${name}</span> `)}<span>${upTo}</span></figcaption>
<div class="plot"><span class="scale" aria-hidden="true"><span>${most.toLocaleString('en')}</span><span>0</span></span><svg viewBox="0 0 ${steps.length} 1000" preserveAspectRatio="none" role="img" aria-label="${caption}, ${upTo}">${shapes}</svg></div>
<p class="axis" aria-hidden="true">${ticks.map((tick) => html`<span>${tick.toISOString().slice(11, 16)}</span>`)}<span>now</span></p></figure>`;
}

function hourly(steps: readonly AttemptStep[], classes: readonly string[]): Html {
  const hourOf = ({ atMs }: AttemptStep) => Math.floor(atMs / 3_600_000);
  const rows = [...new Set(steps.map(hourOf))].reverse().map((hour) => {
    const its = steps.filter((step) => hourOf(step) === hour);
    const failed = classes.map((name) => ({ name, n: total(its.map((step) => step.failed[name] ?? 0)) }));
    const latency = latencyBoundsMs.concat(0).map((_, i) => total(its.map((step) => step.latency[i] ?? 0)));
    const [half, most] = [0.5, 0.95].map((share) => quantileMs(latency, share));
    return {
      cells: [
        exactly(hour * 3_600_000),
        total(its.map((step) => step.delivered)).toLocaleString('en'),
        failed.map(({ name, n }) => n > 0 && `${name} ${n.toLocaleString('en')} `),
        half && `${half} ms`,
        most && `${most} ms`,
      ],
    };
  });
  const columns = ['From', 'Succeeded', 'Failed', 'Median', '95th percentile'];
  return html`<details><summary>The same as a table, by the hour</summary>${table('Attempts by the hour', columns, rows)}</details>`;
}
