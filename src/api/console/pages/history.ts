/** The last day of a site: as plots, and as a table by the hour. */
import type { Middleware } from 'koa';
import {
  type AttemptStep,
  latencyBoundsMs,
  quantileMs,
  readAttempts,
  stepMs,
} from '../../../redis/records/attemptHistory.js';
import type { ApiDeps } from '../../step.js';
import { type Html, html } from '../html.js';
import { sitePageSteps } from '../pageSteps.js';
import { siteUrl } from '../siteFrame.js';

/**
 * GET /console/sites/{site}/history: the data of the plots, as columns of equal length: `{at (s), delivered, failed: {<error
 * class>: [...]}, median (ms or null), most (ms or null; 95 % took at most that)}`.
 */
export function historyEndpoint(deps: ApiDeps): Middleware[] {
  return sitePageSteps(deps, async (ctx) => {
    const steps = await readAttempts(deps.db, ctx.state.client.clientToken);
    const classes = [...new Set(steps.flatMap((step) => Object.keys(step.failed)))].sort();
    ctx.body = {
      at: steps.map((step) => step.atMs / 1000),
      delivered: steps.map((step) => step.delivered),
      failed: Object.fromEntries(classes.map((name) => [name, steps.map((step) => step.failed[name] ?? 0)])),
      median: steps.map((step) => quantileMs(step.latency, 0.5) ?? null),
      most: steps.map((step) => quantileMs(step.latency, 0.95) ?? null),
    };
  });
}

const figures = [
  ['delivered', `Attempts that succeeded, in ${stepMs / 60_000} minutes`],
  ['failed', 'Attempts that failed, by error class'],
  ['latency', 'How long attempts took, ms: half of them at most, 95 % of them at most'],
] as const;

/** plots.js fills them; without script the table shows the same data. */
export const plots = (clientToken: string): Html =>
  html`<div data-plots="${siteUrl(clientToken)}/history">${figures.map(
    ([kind, caption]) =>
      html`<figure><figcaption id="plot-${kind}">${caption}</figcaption><div class="plot" data-plot="${kind}" role="img" aria-labelledby="plot-${kind}"></div></figure>`,
  )}</div>`;

const stepsAnHour = 3_600_000 / stepMs;

export function hourly(steps: readonly AttemptStep[]): Html {
  const hours = new Map<number, AttemptStep[]>();
  for (const step of steps) {
    const hour = Math.floor(step.atMs / (stepMs * stepsAnHour));
    hours.set(hour, [...(hours.get(hour) ?? []), step]);
  }
  const rows = [...hours.values()].reverse().map(hourRow);
  return html`<details><summary>The same as a table, by the hour</summary><div class="scroll" tabindex="0" role="region" aria-label="Attempts by the hour"><table>
<thead><tr><th scope="col">From</th><th scope="col" class="number">Succeeded</th><th scope="col" class="number">Failed</th><th scope="col">Failed with</th><th scope="col" class="number">Half within</th><th scope="col" class="number">95 % within</th></tr></thead>
<tbody>${rows}</tbody></table></div></details>`;
}

function hourRow(steps: readonly AttemptStep[]): Html {
  const delivered = steps.reduce((sum, step) => sum + step.delivered, 0);
  const failed = new Map<string, number>();
  const latency = latencyBoundsMs
    .concat(0)
    .map((_, i) => steps.reduce((sum, step) => sum + (step.latency[i] ?? 0), 0));
  for (const step of steps) {
    for (const [name, n] of Object.entries(step.failed)) failed.set(name, (failed.get(name) ?? 0) + n);
  }
  const total = [...failed.values()].reduce((sum, n) => sum + n, 0);
  const within = (share: number) => {
    const ms = quantileMs(latency, share);
    return ms === undefined ? '' : `${ms} ms`;
  };
  const at = new Date(steps[0]?.atMs ?? 0).toISOString();
  return html`<tr><th scope="row"><time datetime="${at}">${at.slice(0, 16).replace('T', ' ')}</time></th><td class="number">${delivered.toLocaleString('en')}</td><td class="number">${total.toLocaleString('en')}</td><td>${[...failed].map(([name, n]) => `${name} ${n}`).join(', ')}</td><td class="number">${within(0.5)}</td><td class="number">${within(0.95)}</td></tr>
`;
}
