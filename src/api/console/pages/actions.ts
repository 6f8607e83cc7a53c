/** The actions of a site: each form runs the steps of the API's call of the same name. */
import type { Middleware } from 'koa';
import { getEndpoint } from '../../../redis/records/endpoint.js';
import { getRegistration } from '../../../redis/records/registrations.js';
import { previousSigningSecretsUntil } from '../../../redis/records/secrets.js';
import type { ApiDeps } from '../../step.js';
import { type Html, html, type Piece } from '../html.js';
import { formTokenField } from '../layout.js';
import { sitePageSteps } from '../pageSteps.js';
import { answerSitePage, siteUrl } from '../siteFrame.js';
import { count, exactly, stateWords } from './words.js';

/** How far back a recovery or a replay may reach: records are kept for 14 days. */
const spanHours = { '1 hour': 1, '6 hours': 6, '1 day': 24, '3 days': 72, '14 days': 336 };

/** GET /console/sites/{site}/actions */
export function actionsPage({ db, ...rest }: ApiDeps): Middleware[] {
  return sitePageSteps({ db, ...rest }, async (ctx) => {
    const { client, session, formToken } = ctx.state;
    const { clientToken } = client;
    const [registration, health, signAlongUntil] = await Promise.all([
      getRegistration(db, clientToken),
      getEndpoint(db, clientToken),
      previousSigningSecretsUntil(db, clientToken),
    ]);
    const form = (name: string, label: string, fields?: Piece): Html =>
      actionForm(`${siteUrl(clientToken)}/${name}`, formToken, label, fields);
    answerSitePage(ctx, {
      tab: '/actions',
      body: [
        html`<div id="result"></div>`,
        session.access === 'read'
          ? html`<div class="notice"><p>This session may look, but not change or send anything.</p></div>`
          : html`<div class="cards">
${card('Send a test', registration ? 'One notification with the asset “test”, now, to your URL. It counts for nothing else.' : 'One notification with the asset “test”, now, to a URL of yours: none is registered yet.', form('test', 'Send a test', registration ? undefined : urlField))}
${card('Check your receiver', `Five test notifications, good and bad, ${registration ? 'to your URL' : 'to a URL of yours'}. They show whether it verifies the signature and the time, and accepts a repeat and a slow body. They count for nothing else. This takes some seconds.`, form('check', 'Check', registration ? undefined : checkUrlField))}
${registration && card('Resume', `Probes a suspended or failing endpoint now, then sends what is owed. It is ${stateWords[health.state]}.`, form('resume', 'Resume'))}
${card('Recover', 'Sends notifications that ended as failed once more, unless a newer notification of the same asset followed. It shows the count first.', form('recover', 'Count', spanFields('hours')))}
${card('Replay', 'For a receiver that has lost notifications, for instance after a restore from a backup. Sends once more each asset whose notification was delivered in that time. It shows the count first.', form('replay', 'How many?', spanFields('replay_hours')))}
${card('Signing secret', overlap(signAlongUntil), [form('signing_secret', 'Show it'), form('signing_secret/rotate', 'Make a new one')])}
</div>`,
      ],
    });
  });
}

/** A form for one of the addresses of answers.ts; with script the answer appears in this page's #result. */
export const actionForm = (action: string, formToken: string, label: string, fields?: Piece): Html =>
  html`<form class="row" method="post" action="${action}" hx-post="${action}" hx-target="#result" hx-select="#result" hx-swap="outerHTML">
${formTokenField(formToken)}${fields}<button>${label}</button></form>`;

const card = (title: string, text: Piece, forms: Piece): Html =>
  html`<section class="card"><h2>${title}</h2><p>${text}</p>${forms}</section>`;

/** @param id unique on the page */
const urlInput = (id: string): Html =>
  html`<div><label for="${id}">URL</label><input id="${id}" name="url" type="url" required maxlength="2048" placeholder="https://"></div>`;
const urlField = urlInput('url');
const checkUrlField = urlInput('check_url');

/** @param id unique on the page */
const spanFields = (id: string): Html =>
  html`<div><label for="${id}">Of the last</label><select id="${id}" name="hours">${Object.entries(spanHours).map(([name, hours]) => html`<option value="${hours}" ${hours === 24 && html`selected`}>${name}</option>`)}</select></div><input type="hidden" name="dry_run" value="true">`;

function overlap(untilMs: readonly number[]): Html {
  const [last] = untilMs;
  if (last === undefined) {
    return html`One secret signs now. After a new one is made the old one signs along for 24 h, so that nothing is refused while your receiver changes.`;
  }
  return html`${count(untilMs.length, 'earlier secret signs', 'earlier secrets sign')} along with the newest, the last until ${exactly(last)}: every notification carries ${untilMs.length + 1} signatures.`;
}
