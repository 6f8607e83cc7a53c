/** Shows the actions of a site. The form of an action carries out the API's call of the same name, and a page shows the call's answer. */
import type { z } from 'zod';
import { badParameter } from '../../http/apiError.js';
import type { Parameters } from '../../http/query.js';
import type { answeredRequest } from '../../http/schemas.js';
import { explainFailure, explainRemarks } from '../../outgoing/details.js';
import { originOf } from '../../outgoing/target.js';
import { type WaitReason, waits } from '../../redis/owed/waitReasons.js';
import type { AccessToken } from '../../redis/records/accessTokens.js';
import { secretBoxOf } from '../../redis/records/installation.js';
import { unlessUnreadable } from '../../redis/records/secretBox.js';
import { previousSigningSecretsUntil } from '../../redis/records/secrets.js';
import { readUrlRequest, type UrlRequest } from '../../redis/records/urlRequests.js';
import type { Sent as SentForm } from '../../web/door.js';
import { type Html, html, type Piece } from '../../web/html.js';
import { actionForm, card, hidden, noResult, type Page } from '../../web/page.js';
import { home, type Site, type SitePart } from '../../web/site.js';
import { count, exactly, stateInWords } from '../../web/words.js';
import type { clientCall } from '../call.js';
import { getSigningSecretCall, rotateSigningSecretCall } from '../calls/clientSettings.js';
import { resumePushNotificationsCall } from '../calls/clients.js';
import { requestUrlCall } from '../calls/registrations.js';
import {
  dismissNotificationsCall,
  recoverNotificationsCall,
  redeliverNotificationCall,
  replayNotificationsCall,
} from '../calls/sendAgain.js';
import {
  checkReceiverCall,
  type oneCheck,
  sendTestNotificationCall,
  type sentRequest,
} from '../calls/testNotification.js';
import type { ApiDeps } from '../deps.js';

/** How far back a recovery or a replay may reach: records are kept for 14 days. */
const spanHours = { '1 hour': 1, '6 hours': 6, '1 day': 24, '3 days': 72, '14 days': 336 };
/** Failed assets are kept for longer. */
const recoverHours = { ...spanHours, '90 days': 2160 };

/** GET /console/sites/{site}/actions */
export const actions: SitePart = async (site, deps) => {
  const { client, access, formToken, here, registration, reader } = site;
  if (access === 'read')
    return html`<div class="notice"><p>This session may look, but not change or send anything.</p></div>`;
  const signAlongUntil = await previousSigningSecretsUntil(deps.db, client.clientToken);
  const form = (name: string, label: string, fields?: Piece): Html =>
    actionForm(`${here}/${name}`, formToken, label, fields);
  return [
    noResult,
    html`<div class="cards">
${card('Send a test', 'One notification with the asset “test”, now. It counts for nothing else.', form('test', 'Send a test', urlInput('url', registration !== undefined)))}
${card('Check your receiver', 'Five test notifications, good and bad. They show whether it verifies the signature and the time, and accepts a repeat and a slow body. They count for nothing else. This takes some seconds.', form('check', 'Check', urlInput('check_url', registration !== undefined)))}
${registration && card('Resume', 'Probes a suspended or failing endpoint now, then sends what waits.', form('resume', 'Resume'))}
${card('Recover', 'Sends failed notifications again, unless the asset has a newer one. It shows the count first.', form('recover', 'Count', spanFields('hours', recoverHours)))}
${card('Dismiss', 'Cancels failed notifications that you no longer need, so that these pages stop naming them. It shows the count first.', form('dismiss', 'Count', [spanFields('dismiss_hours', recoverHours), reasonInput('dismiss_reason')]))}
${card('Replay', 'For a receiver that has lost notifications, for instance after a restore from a backup. Sends once more each asset whose notification was delivered in that time. It shows the count first.', form('replay', 'Count', spanFields('replay_hours')))}
${registration && card('Ask for another URL', [`Only ${reader.contact} can change the URL. `, await lastRequest(site, deps)], form('url_request', 'Ask', [urlInput('asked_url', false), reasonInput('asked_reason')]))}
${card('Signing secret', overlap(signAlongUntil), [
  form('signing_secret', 'Show it'),
  html`<details><summary>Make a new one</summary><p>Every notification then carries a signature with the new secret, and for 24 h one with the present secret. Give your receiver the new secret within that time.</p>${form('signing_secret/rotate', 'Make a new secret now')}</details>`,
])}
</div>`,
  ];
};

/** Says what became of the last request; nothing if there is none. */
export const lastRequest: SitePart = async ({ client, access, reader }, { db, config }) => {
  const read = async () => readUrlRequest(db, await secretBoxOf(db, config.SECRETS_KEY), client.clientToken);
  const asked = await read().catch(unlessUnreadable);
  if (asked === undefined) return '';
  const url = access === 'full' ? asked.url : originOf(asked.url);
  const became: Record<UrlRequest['state'], Piece> = {
    waiting: html`waits for ${reader.contact} until ${exactly(asked.until)}; another request takes its place`,
    accepted: `was accepted by ${reader.contact}`,
    declined: `was declined by ${reader.contact}`,
    void: 'is void: nobody answered it in time, or the URL changed otherwise',
  };
  return html`Your request for <code>${url}</code> of ${exactly(asked.at)} ${became[asked.state]}.`;
};

/** @param id unique on the page */
const urlInput = (id: string, isRegistered: boolean): Html =>
  html`<div><label for="${id}">${isRegistered ? 'URL, if not the registered one' : 'URL'}</label><input id="${id}" name="url" type="url" ${!isRegistered && html`required`} maxlength="2048" placeholder="https://"></div>`;

/** @param id unique on the page */
const spanFields = (id: string, spans = spanHours): Html =>
  html`<div><label for="${id}">Of the last</label><select id="${id}" name="hours">${Object.entries(spans).map(([name, hours]) => html`<option value="${hours}" ${hours === 24 && html`selected`}>${name}</option>`)}</select></div>${hidden('dry_run', 'true')}`;

/** @param id unique on the page */
const reasonInput = (id: string): Html =>
  html`<div><label for="${id}">Why (one line, for the audit)</label><input id="${id}" name="reason" maxlength="200" autocomplete="off" required></div>`;

function overlap(untilMs: readonly number[]): Piece {
  const [last] = untilMs;
  if (last === undefined) return 'One secret signs now.';
  return html`${count(untilMs.length, 'earlier secret remains', 'earlier secrets remain')} valid beside the newest, the last until ${exactly(last)}: every notification carries ${untilMs.length + 1} signatures.`;
}

type Answer = Readonly<Record<string, unknown>>;

interface Input {
  query?: { url: string };
  body?: Readonly<Record<string, unknown>>;
}

export interface Action {
  title: string;
  call: ReturnType<typeof clientCall>;
  readForm?: (form: Parameters) => Input;
  present: (answer: Answer, site: Pick<Site, 'ctx' | 'here' | 'formToken' | 'reader'>, input: Input) => Piece;
}

/** Answers the form of an action with the answer of the API's call. */
export async function answerAction(
  deps: ApiDeps,
  { title, call, readForm = () => ({}), present }: Action,
  sent: Pick<Site, 'ctx' | 'client' | 'here' | 'formToken' | 'stands' | 'reader'> &
    SentForm & { token: AccessToken },
): Promise<Page> {
  const { ctx, token, client, form, stands } = sent;
  const input = readForm(form);
  const { query, body } = input;
  const { answer, tone } = await call.carryOut(deps, { ctx, token, stands, client, query, body });
  return {
    title,
    parent: home(sent),
    body: html`<div id="result" class="notice ${tone}" role="status" tabindex="-1">${present(answer as Answer, sent, input)}</div>`,
  };
}

type Sent = z.output<typeof sentRequest>;
type Answered = z.output<typeof answeredRequest>;

/** POST /console/notices/test: a test to the account's URL for notices only. */
export const noticesTest: Action = {
  title: 'Test',
  call: sendTestNotificationCall,
  present: (answer, { reader }) => {
    const { status, error, milliseconds, remarks, request } = answer as Answered & { request: Sent };
    const { does, advice } = explainFailure(answer, reader.contact);
    const would = status === 410 ? 'suspend this endpoint' : 'be tried again';
    return html`<p>Your endpoint ${error === undefined ? html`answered <strong>${status}</strong>` : html`<strong>${does}</strong>`} after ${milliseconds} ms. ${error !== undefined && `${advice} A notification would ${would}.`} ${explainRemarks(remarks).join(' ')}</p>
<details><summary>What was sent</summary>${shownRequest(request)}</details>`;
  },
};

const shownRequest = ({ headers, body }: Sent): Html =>
  html`<pre>${[...Object.entries(headers).map(([name, value]) => `${name}: ${value}`), '', body].join('\n')}</pre>`;

type Check = z.output<typeof oneCheck>;

const checkTitles: Record<Check['name'], string> = {
  good: 'A good notification',
  wrong_signature: 'A wrong signature',
  old_timestamp: 'A timestamp an hour old',
  twice: 'A repeat of the first one',
  slow: 'A slow body',
};

function shownCheck({ name, sent, answered, verdict, advice }: Check): Html {
  const answers = answered.map(
    ({ status, error, detail, milliseconds }) =>
      `${status ?? `no answer (${detail ?? error})`} after ${milliseconds} ms`,
  );
  return html`<details ${verdict !== 'ok' && html`open`}><summary><span class="badge ${verdict}">${verdict}</span> ${checkTitles[name]}: ${answers.join(', then ')}</summary>
<p>${advice}</p>
${sent.map(shownRequest)}</details>
`;
}

/**
 * Counts first, and shows a form that recovers, dismisses or replays. The count fixes the end of the time, so that the form covers no more
 * than was counted, and owes nothing twice even if it is sent several times.
 */
const range = (
  title: 'Recover' | 'Replay' | 'Dismiss',
  call: Action['call'],
  noun: string,
  none: string,
): Action => ({
  title,
  call,
  readForm: (form) => {
    const dry_run = form.get('dry_run') === 'true';
    const until = form.get('until');
    return {
      body: {
        since: form.get('since') ?? sinceHours(form.get('hours') ?? ''),
        ...(title === 'Dismiss' && { reason: form.get('reason') ?? '' }),
        ...(until && { until }),
        dry_run,
      },
    };
  },
  present(
    { count: found, at_least: isAtLeast, more, until, complete_since: complete, waiting_reason: why },
    { here, formToken },
    { body },
  ) {
    const { dry_run: isDryRun, ...given } = body ?? {};
    const times: Record<string, unknown> = { ...given, until };
    const counted = count(Number(found), noun);
    const missing =
      Date.parse(String(complete)) > Date.parse(String(times.since)) &&
      html`<p>This is complete since ${exactly(Date.parse(String(complete)))}: what is older may be missing.</p>`;
    const fields = Object.entries(times).map(([name, time]) => hidden(name, String(time)));
    const action = `${here}/${title.toLowerCase()}`;
    const left = Number(more ?? 0);
    if (!isDryRun) {
      const others =
        left > 0 && actionForm(action, formToken, `${title} ${count(left, 'more', 'more')}`, fields);
      return html`<p>${counted} ${title === 'Dismiss' ? 'dismissed' : `owed again; ${why === undefined ? 'sending begins now' : `not sent now: ${waits[why as WaitReason].says}`}`}.</p>${others}${missing}`;
    }
    if (found === 0 && isAtLeast !== true) return html`<p>${none}</p>${missing}`;
    return html`<p>${counted} would be ${title === 'Dismiss' ? 'dismissed' : 'sent again'}.</p>${missing}${actionForm(action, formToken, `${title} ${counted}`, fields)}`;
  },
});

const noneFailed = 'No notification failed in that time, or a newer one of its video followed.';

/** @throws ApiError 400 */
function sinceHours(hours: string): string {
  if (!/^\d{1,4}$/.test(hours)) throw badParameter('hours is not a number');
  return new Date(Date.now() - Number(hours) * 3_600_000).toISOString();
}

const shownSecret = (secret: string): Html =>
  html`<p><code id="secret">${secret}</code> <button type="button" class="quiet" data-copies="secret">Copy</button></p>`;

function readUrl(form: Parameters): Input {
  const url = form.get('url');
  return url ? { query: { url } } : {};
}

/** POST /console/sites/{site}/{key} */
export const siteActions: Record<string, Action> = {
  test: { ...noticesTest, readForm: readUrl },
  check: {
    title: 'Check',
    call: checkReceiverCall,
    readForm: readUrl,
    present: (answer) => {
      const { checks } = answer as { checks: Check[] };
      const wrong = checks.filter(({ verdict }) => verdict !== 'ok').length;
      return html`<p>${wrong === 0 ? 'Your receiver passes every check.' : `${count(wrong, 'check')} of ${checks.length} failed or need attention.`}</p>${checks.map(shownCheck)}`;
    },
  },
  resume: {
    title: 'Resume',
    call: resumePushNotificationsCall,
    present: ({ state, owed }) =>
      html`<p>It is ${stateInWords(String(state))}; ${count(Number(owed), 'notification')} owed. ${state === 'failing' && (owed === 0 ? 'The next event probes it.' : `A probe goes out now${owed === 1 ? '' : '; when it succeeds, the others follow'}.`)}</p>`,
  },
  recover: range('Recover', recoverNotificationsCall, 'notification', noneFailed),
  dismiss: range('Dismiss', dismissNotificationsCall, 'notification', noneFailed),
  replay: range(
    'Replay',
    replayNotificationsCall,
    'asset',
    'No notification of that time has to be sent again.',
  ),
  url_request: {
    title: 'Ask for another URL',
    call: requestUrlCall,
    readForm: (form) => ({ body: { url: form.get('url') ?? '', reason: form.get('reason') ?? '' } }),
    present: ({ until }, { reader }) =>
      html`<p>Your request waits for ${reader.contact}, until ${exactly(Date.parse(String(until)))} at the latest. This page shows the answer.</p>`,
  },
  signing_secret: {
    title: 'Signing secret',
    call: getSigningSecretCall,
    present: ({ signing_secret: secret }) => shownSecret(String(secret)),
  },
  'signing_secret/rotate': {
    title: 'Signing secret',
    call: rotateSigningSecretCall,
    present: ({ signing_secret: secret, previous_valid_until: until }) => [
      html`<p>New secret created. ${until !== null && html`The old one remains valid until <strong>${exactly(Date.parse(String(until)))}</strong>: give your receiver the new one before then.`}</p>`,
      shownSecret(String(secret)),
    ],
  },
  'notifications/:id/redeliver': {
    title: 'Send it again',
    call: redeliverNotificationCall,
    present: ({ notification_id, waiting_reason: why }, { ctx }) =>
      html`<p>${notification_id === ctx.params.id ? 'It is' : 'Another of its video that was owed or had failed is'} ${why === undefined ? 'due now' : `owed: ${waits[why as WaitReason].says}`}, with the <code>webhook-id</code> <code>${String(notification_id)}</code>.</p>`,
  },
};
