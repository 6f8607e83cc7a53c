/** The actions of a site: each form runs the steps of the API's call of the same name. */
import type { Middleware } from 'koa';
import { previousSigningSecretsUntil } from '../../redis/records/secrets.js';
import type { ApiDeps } from '../step.js';
import { type Html, html, type Piece } from './html.js';
import { actionForm, noResult } from './page.js';
import { sitePage, siteUrl } from './site.js';
import { count, exactly } from './words.js';

/** How far back a recovery or a replay may reach: records are kept for 14 days. */
const spanHours = { '1 hour': 1, '6 hours': 6, '1 day': 24, '3 days': 72, '14 days': 336 };

/** GET /console/sites/{site}/actions */
export const actionsPage = (deps: ApiDeps): Middleware[] =>
  sitePage(deps, '/actions', async ({ state }, { registration }) => {
    const { client, session, formToken } = state;
    if (session.access === 'read') {
      return html`<div class="notice"><p>This session may look, but not change or send anything.</p></div>`;
    }
    const signAlongUntil = await previousSigningSecretsUntil(deps.db, client.clientToken);
    const form = (name: string, label: string, fields?: Piece): Html =>
      actionForm(`${siteUrl(client.clientToken)}/${name}`, formToken, label, fields);
    return [
      noResult,
      html`<div class="cards">
${card('Send a test', 'One notification with the asset “test”, now. It counts for nothing else.', form('test', 'Send a test', urlInput('url', registration !== undefined)))}
${card('Check your receiver', 'Five test notifications, good and bad. They show whether it verifies the signature and the time, and accepts a repeat and a slow body. They count for nothing else. This takes some seconds.', form('check', 'Check', urlInput('check_url', registration !== undefined)))}
${registration && card('Resume', 'Probes a suspended or failing endpoint now, then sends what waits.', form('resume', 'Resume'))}
${card('Recover', 'Sends notifications that ended as failed once more, unless a newer notification of the same asset followed. It shows the count first.', form('recover', 'Count', spanFields('hours')))}
${card('Replay', 'For a receiver that has lost notifications, for instance after a restore from a backup. Sends once more each asset whose notification was delivered in that time. It shows the count first.', form('replay', 'Count', spanFields('replay_hours')))}
${card('Signing secret', overlap(signAlongUntil), [
  form('signing_secret', 'Show it'),
  html`<details><summary>Make a new one</summary><p>Every notification then carries a signature with the new secret, and for 24 h one with the present secret. Give your receiver the new secret within that time.</p>${form('signing_secret/rotate', 'Make a new secret now')}</details>`,
])}
</div>`,
    ];
  });

const card = (title: string, text: Piece, forms: Piece): Html =>
  html`<section class="card"><h2>${title}</h2><p>${text}</p>${forms}</section>`;

/** @param id unique on the page */
const urlInput = (id: string, isRegistered: boolean): Html =>
  html`<div><label for="${id}">${isRegistered ? 'Another URL than the registered one' : 'URL'}</label><input id="${id}" name="url" type="url" ${!isRegistered && html`required`} maxlength="2048" placeholder="https://"></div>`;

/** @param id unique on the page */
const spanFields = (id: string): Html =>
  html`<div><label for="${id}">Of the last</label><select id="${id}" name="hours">${Object.entries(spanHours).map(([name, hours]) => html`<option value="${hours}" ${hours === 24 && html`selected`}>${name}</option>`)}</select></div><input type="hidden" name="dry_run" value="true">`;

function overlap(untilMs: readonly number[]): Piece {
  const [last] = untilMs;
  if (last === undefined) return 'One secret signs now.';
  return html`${count(untilMs.length, 'earlier secret signs', 'earlier secrets sign')} along with the newest, the last until ${exactly(last)}: every notification carries ${untilMs.length + 1} signatures.`;
}
