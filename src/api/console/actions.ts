/** What an engineer does on a site: actions, whose forms run the API's call of the same name, and receivers to paste. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
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
  html`<div><label for="${id}">${isRegistered ? 'URL, if not the registered one' : 'URL'}</label><input id="${id}" name="url" type="url" ${!isRegistered && html`required`} maxlength="2048" placeholder="https://"></div>`;

/** @param id unique on the page */
const spanFields = (id: string): Html =>
  html`<div><label for="${id}">Of the last</label><select id="${id}" name="hours">${Object.entries(spanHours).map(([name, hours]) => html`<option value="${hours}" ${hours === 24 && html`selected`}>${name}</option>`)}</select></div><input type="hidden" name="dry_run" value="true">`;

function overlap(untilMs: readonly number[]): Piece {
  const [last] = untilMs;
  if (last === undefined) return 'One secret signs now.';
  return html`${count(untilMs.length, 'earlier secret signs', 'earlier secrets sign')} along with the newest, the last until ${exactly(last)}: every notification carries ${untilMs.length + 1} signatures.`;
}

/** A build copies them into `dist`. */
const examples = join(import.meta.dirname, '../../../examples');

/** Whole receivers, which the tests run. */
const files = {
  Node: 'node/receiver.mjs',
  Python: 'python/receiver.py',
  Go: 'go/receiver.go',
  PHP: 'php/receiver.php',
  Java: 'java/Receiver.java',
  'C#': 'csharp/Receiver.cs',
};

const receivers = Object.entries(files).map(
  ([language, file]) =>
    html`<details><summary>${language}</summary><pre id="${file}">${readFileSync(join(examples, file), 'utf8')}</pre><p><button type="button" class="quiet" data-copies="${file}">Copy ${language}</button></p></details>
`,
);

/** GET /console/sites/{site}/verify */
export const verifyPage = (deps: ApiDeps): Middleware[] =>
  sitePage(
    deps,
    '/verify',
    ({ state }) =>
      html`<p>Each notification is signed as <a href="https://www.standardwebhooks.com" rel="noreferrer">Standard Webhooks</a> says, so that your receiver can tell ours from anybody else’s. One of their libraries does it, or a few lines of your own. Each of these is a whole receiver:</p>
<ul><li>Check the <strong>bytes of the body as they arrived</strong>, before anything parses them.</li><li>The secret is on the page <a href="${siteUrl(state.client.clientToken)}/actions">Actions</a>; keep it where your other secrets are.</li><li>While a secret is being changed, a notification carries several signatures: one that fits is enough.</li></ul>
${receivers}`,
  );
