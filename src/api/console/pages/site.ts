import type { Middleware } from 'koa';
import { originOf } from '../../../outgoing/target.js';
import { type AttemptStep, readAttempts } from '../../../redis/records/attemptHistory.js';
import {
  type Endpoint,
  getEndpoint,
  type StateChange,
  stateChangesOf,
} from '../../../redis/records/endpoint.js';
import { getRegistration, type Registration } from '../../../redis/records/registrations.js';
import { requestHeaderNames } from '../../../redis/records/secrets.js';
import type { ApiDeps } from '../../step.js';
import { type Html, html } from '../html.js';
import { live } from '../layout.js';
import { sitePageSteps } from '../pageSteps.js';
import { answerSitePage } from '../siteFrame.js';
import { hourly, plots } from './history.js';
import { count, exactly, lasting, moment, owedSentence, stateWords } from './words.js';

/** GET /console/sites/{site}: shows the state of a site, now and over the last day. */
export function sitePage({ db, ...rest }: ApiDeps): Middleware[] {
  return sitePageSteps({ db, ...rest }, async (ctx) => {
    const { client, session } = ctx.state;
    const { clientToken } = client;
    const isFull = session.access === 'full';
    const [health, registration, changes, steps, headerNames] = await Promise.all([
      getEndpoint(db, clientToken),
      getRegistration(db, clientToken),
      stateChangesOf(db, clientToken),
      readAttempts(db, clientToken),
      requestHeaderNames(db, clientToken),
    ]);
    answerSitePage(ctx, {
      tab: '',
      styles: ['uplot.css'],
      scripts: ['uplot.js', 'plots.js'],
      body: [
        live(ctx.path, [now(health, registration, headerNames, isFull), day(steps)]),
        html`<h2>The last day</h2>`,
        plots(clientToken),
        hourly(steps),
        changes.length > 0 && stateChanges(changes),
      ],
    });
  });
}

function now(
  health: Endpoint,
  registration: Registration | undefined,
  headerNames: readonly string[],
  isFull: boolean,
): Html {
  const state = registration ? health.state : 'not_registered';
  return html`<p class="lead"><span class="badge ${state}">${stateWords[state]}</span> ${owedSentence(health, registration !== undefined)}</p>
<dl class="facts">
<dt>Sent to</dt><dd>${registration ? html`<code>${isFull ? registration.url : originOf(registration.url)}</code>` : 'nowhere: no URL is registered'}</dd>
${headerNames.length > 0 && html`<dt>Headers of your own</dt><dd>${headerNames.map((name, i) => html`${i > 0 && ', '}<code>${name}</code>`)}, sent with each notification; their values are not shown</dd>`}
${registration && html`<dt>Registered</dt><dd>${moment(registration.registeredAtMs)}</dd>`}
${health.lastChange && html`<dt>In this state</dt><dd>for ${lasting(health.lastChange.atMs)}: ${health.lastChange.why}</dd>`}
<dt>Last success</dt><dd>${moment(health.lastSuccessAt)}</dd>
<dt>Last failure</dt><dd>${moment(health.lastFailureAt)}${health.lastFailureAt !== undefined && failure(health)}</dd>
</dl>`;
}

const failure = ({ lastError, lastStatus }: Endpoint): Html =>
  html`: ${lastStatus === undefined ? (lastError ?? 'unknown') : `HTTP ${lastStatus}`}`;

function day(steps: readonly AttemptStep[]): Html {
  const delivered = steps.reduce((sum, step) => sum + step.delivered, 0);
  const failed = steps.reduce((sum, step) => sum + failures(step), 0);
  return html`<p>In the last day ${count(delivered, 'attempt')} succeeded and ${failed.toLocaleString('en')} failed.</p>`;
}

const failures = (step: AttemptStep): number => Object.values(step.failed).reduce((sum, n) => sum + n, 0);

const stateChanges = (changes: readonly StateChange[]): Html => html`<h2>Changes of state</h2>
<div class="scroll" tabindex="0" role="region" aria-label="Changes of state"><table>
<thead><tr><th scope="col">When</th><th scope="col">From</th><th scope="col">To</th><th scope="col">Why</th></tr></thead>
<tbody>${changes.map((change) => html`<tr><td>${exactly(change.atMs)}</td><td>${stateWords[change.from]}</td><td>${stateWords[change.to]}</td><td>${change.why}</td></tr>`)}</tbody></table></div>`;
