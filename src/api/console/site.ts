/** What the pages of a site have in common, and the first of them: how it stands, now and over the last day. */
import type { Middleware } from 'koa';
import { originOf } from '../../outgoing/target.js';
import {
  type AttemptStep,
  latencyBoundsMs,
  quantileMs,
  readAttempts,
  stepMs,
} from '../../redis/records/attemptHistory.js';
import {
  type Endpoint,
  getEndpoint,
  type StateChange,
  stateChangesOf,
} from '../../redis/records/endpoint.js';
import { getRegistration, type Registration } from '../../redis/records/registrations.js';
import { requestHeaderNames } from '../../redis/records/secrets.js';
import type { ApiDeps, StepContext } from '../step.js';
import { pageSteps, requireSite } from './access.js';
import { type Html, html, type Piece } from './html.js';
import { answerPage, homeOf, type SessionState, table } from './page.js';
import { count, exactly, faultInWords, moment, standing, stateInWords } from './words.js';

const tabs = [
  ['', 'Overview'],
  ['/notifications', 'Notifications'],
  ['/asset', 'Why did I get nothing?'],
  ['/actions', 'Actions'],
  ['/verify', 'Verify signatures'],
] as const;

export const siteUrl = (clientToken: string): string => `/console/sites/${clientToken}`;

/** A page of one site: what is wrong now in its first line, the tabs, and what the page is about. */
export function sitePage(
  deps: ApiDeps,
  tab: (typeof tabs)[number][0],
  present: (
    ctx: StepContext<SessionState>,
    site: { health: Endpoint; registration?: Registration },
  ) => Piece | Promise<Piece>,
): Middleware[] {
  const { db } = deps;
  return pageSteps(deps, requireSite(deps), async (ctx) => {
    const { clientToken } = ctx.state.client;
    const [health, registration] = await Promise.all([
      getEndpoint(db, clientToken),
      getRegistration(db, clientToken),
    ]);
    const body = await present(ctx, { health, registration });
    const here = siteUrl(clientToken);
    const actions = html`<a href="${here}/actions">Actions</a>`;
    // The receivers to paste are large, and never change.
    const isLive = tab !== '/verify';
    answerPage(ctx, {
      title: homeOf(ctx.state.client).name,
      isLive,
      body: [
        isLive &&
          standing(health, {
            isRegistered: registration !== undefined,
            noun: 'video',
            register: html`Send a test to your receiver’s URL (${actions}), then have your backend register the URL: <code>POST /register_push_notifications</code>.`,
            resume: html`press Resume (${actions})`,
          }),
        html`<nav aria-label="This site"><ul class="tabs">${tabs.map(([path, name]) => html`<li><a href="${here}${path}" ${path === tab && html`aria-current="page"`}>${name}</a></li>`)}</ul></nav>`,
        body,
      ],
    });
  });
}

/** GET /console/sites/{site} */
export const overviewPage = (deps: ApiDeps): Middleware[] =>
  sitePage(deps, '', async ({ state: { client, session } }, { health, registration }) => {
    const { clientToken } = client;
    const [changes, steps, headerNames] = await Promise.all([
      stateChangesOf(deps.db, clientToken),
      readAttempts(deps.db, clientToken),
      requestHeaderNames(deps.db, clientToken),
    ]);
    const here = siteUrl(clientToken);
    const failed = `${here}/notifications${health.owed > 0 ? '?state=waiting' : ''}`;
    const fault = faultInWords(health);
    return [
      html`<dl class="facts">
<dt>Sent to</dt><dd>${registration ? html`<code>${session.access === 'full' ? registration.url : originOf(registration.url)}</code>, in force since ${exactly(registration.registeredAtMs)}` : 'nowhere'}</dd>
<dt>Client token</dt><dd><code>${clientToken}</code></dd>
${headerNames.length > 0 && html`<dt>Headers of your own</dt><dd>${headerNames.map((name, i) => html`${i > 0 && ', '}<code>${name}</code>`)}, sent with each notification; their values are not shown</dd>`}
${health.oldestOwedAt && html`<dt>Oldest that waits</dt><dd>since ${exactly(health.oldestOwedAt)}</dd>`}
<dt>Last success</dt><dd>${moment(health.lastSuccessAt)}</dd>
<dt>Last failure</dt><dd>${moment(health.lastFailureAt)}${health.lastFailureAt && html`: <a href="${failed}">${fault || 'see the attempts'}</a>`}</dd>
</dl>`,
      html`<h2>The last day</h2>`,
      day(steps),
      changes.length > 0 && [html`<h2>Changes of state</h2>`, stateChanges(changes)],
    ];
  });

const stateChanges = (changes: readonly StateChange[]): Html =>
  table(
    'Changes of state',
    ['When', 'From', 'To', 'Why'],
    changes.map(({ atMs, from, to, why, by }) => ({
      cells: [
        exactly(atMs),
        stateInWords(from),
        stateInWords(to),
        by === 'service' ? why : `${why} (by ${changedBy[by]})`,
      ],
    })),
  );

const changedBy = { publisher: 'you', operator: 'your account manager' };

function day(steps: readonly AttemptStep[]): Piece {
  const delivered = total(steps.map((step) => step.delivered));
  const failed = total(steps.map(failures));
  if (delivered + failed === 0) return html`<p>No attempt.</p>`;
  const classes = [...new Set(steps.flatMap((step) => Object.keys(step.failed)))].sort();
  const within = (share: number) => steps.map((step) => quantileMs(step.latency, share) ?? 0);
  return [
    html`<p>${count(delivered, 'attempt')} succeeded and ${failed.toLocaleString('en')} failed.</p>`,
    plot(`Attempts that succeeded, in ${stepMs / 60_000} minutes`, steps, [
      { name: 'succeeded', tint: 1, values: steps.map((step) => step.delivered) },
    ]),
    failed > 0 &&
      plot(
        'Attempts that failed, by error class',
        steps,
        classes.map((name, i) => ({
          name,
          tint: 2 + (i % 4),
          values: steps.map((step) => step.failed[name] ?? 0),
        })),
      ),
    plot('How long attempts took, ms', steps, [
      { name: 'half of them at most', tint: 5, values: within(0.5) },
      {
        name: '95 % of them at most',
        tint: 4,
        values: within(0.95).map((ms, i) => ms - (within(0.5)[i] ?? 0)),
      },
    ]),
    hourly(steps, classes),
  ];
}

const total = (values: readonly number[]): number => values.reduce((sum, n) => sum + n, 0);
const failures = (step: AttemptStep): number => total(Object.values(step.failed));

interface Series {
  name: string;
  /** Of the colours in console.css. */
  tint: number;
  values: readonly number[];
}

/** Draws each series upon those before it, a bar for each step. */
function plot(caption: string, steps: readonly AttemptStep[], series: readonly Series[]): Html {
  const sums = steps.map(() => 0);
  const heights = steps.map((_, i) => total(series.map(({ values }) => values[i] ?? 0)));
  const top = Math.max(1, ...heights);
  const y = (value: number) => Math.round(1000 - (1000 * value) / top);
  const shapes = series.map(({ tint, values }) => {
    const bars = values.map((value, i) => {
      const from = sums[i] ?? 0;
      sums[i] = from + value;
      return value === 0 ? '' : `M${i} ${y(from)}V${y(from + value)}h1V${y(from)}z`;
    });
    return html`<path class="tint-${tint}" d="${bars.join('')}"/>`;
  });
  const ticks = steps.filter((_, i) => i % (steps.length / 6) === 0).map(({ atMs }) => new Date(atMs));
  return html`<figure><figcaption>${caption}: ${series.map(({ name, tint }) => html`<span class="key tint-${tint}">${name}</span> `)}<span>up to ${top.toLocaleString('en')}</span></figcaption>
<svg viewBox="0 0 ${steps.length} 1000" preserveAspectRatio="none" role="img" aria-label="${caption}, at most ${top.toLocaleString('en')}; the table below has the numbers">${shapes}</svg>
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
  const columns = ['From', 'Succeeded', 'Failed', 'Half within', '95 % within'];
  return html`<details><summary>The same as a table, by the hour</summary>${table('Attempts by the hour', columns, rows)}</details>`;
}
