import type { Middleware } from 'koa';
import { notificationRequest } from '../../../outgoing/notification.js';
import type { NotificationRecord } from '../../../redis/notifications/notifications.js';
import type { AttemptRecord } from '../../../redis/owed/standing.js';
import type { ApiDeps } from '../../step.js';
import { type NotificationStepState, requireOwnNotification } from '../../steps/publisher.js';
import type { SessionState } from '../access/session.js';
import { type Html, html } from '../html.js';
import { formTokenField, live } from '../layout.js';
import { sitePageSteps } from '../pageSteps.js';
import { answerSitePage, siteUrl } from '../siteFrame.js';
import { count, exactly, moment, stateSentence } from './words.js';

type PageState = SessionState & NotificationStepState;

/** GET /console/sites/{site}/notifications/{id}: one notification, each attempt and the request that it sent. */
export function notificationPage(deps: ApiDeps): Middleware[] {
  return sitePageSteps<PageState>(deps, requireOwnNotification(deps.db), async (ctx) => {
    const { notification } = ctx.state;
    const { clientToken, notificationId } = notification;
    answerSitePage(ctx, {
      title: notification.platformId,
      body: [
        live(ctx.path, [facts(notification), attempts(notification)]),
        html`<div id="result"></div>`,
        ctx.state.session.access === 'full' &&
          redeliverForm(clientToken, notificationId, ctx.state.formToken),
      ],
    });
  });
}

const facts = (n: NotificationRecord): Html => html`<dl class="facts">
<dt>State</dt><dd><span class="badge ${n.state}">${n.state.replace('_', ' ')}</span> ${stateSentence(n)}</dd>
${n.nextAttemptAt !== undefined && html`<dt>Next attempt</dt><dd>${moment(n.nextAttemptAt)}</dd>`}
<dt>Accepted</dt><dd>${exactly(n.acceptedAt)}</dd>
${n.endedAt !== undefined && html`<dt>Ended</dt><dd>${exactly(n.endedAt)}</dd>`}
<dt>Notification</dt><dd><code>${n.notificationId}</code>, the <code>webhook-id</code> of every attempt</dd>
<dt>Event</dt><dd><code>${n.eventId}</code>, ${n.priority}</dd>
</dl>`;

function attempts(n: NotificationRecord): Html {
  if (n.attempts.length === 0) return html`<h2>Attempts</h2><p>None so far.</p>`;
  const shown = n.attempts.map((attempt, i) => attemptDetails(n, attempt, i + 1)).reverse();
  return html`<h2>${count(n.attempts.length, 'attempt')}</h2>
<p>The request is put together again from the attempt’s record. Left out are the path and query of the URL and headers of your own, which may hold a secret, and the signature, which is not kept.</p>
${shown}`;
}

const attemptDetails = (n: NotificationRecord, attempt: AttemptRecord, number: number): Html =>
  html`<details id="attempt-${number}"><summary><strong>${attempt.status ?? attempt.error}</strong> ${attempt.status !== undefined && attempt.error !== undefined && html`(${attempt.error}) `}at ${exactly(attempt.at)}, after ${attempt.milliseconds} ms${attempt.remote_address && html`, from ${attempt.remote_address}`}</summary>
<h3>Request</h3><pre class="wrap" tabindex="0">${sentRequest(n, attempt)}</pre>
${attempt.response_excerpt && html`<h3>The answer’s first 1 KiB</h3><pre class="wrap" tabindex="0">${attempt.response_excerpt}</pre>`}</details>
`;

function redeliverForm(clientToken: string, id: string, formToken: string): Html {
  const action = `${siteUrl(clientToken)}/notifications/${id}/redeliver`;
  return html`<form method="post" action="${action}" hx-post="${action}" hx-target="#result" hx-select="#result" hx-swap="outerHTML">
${formTokenField(formToken)}<button>Send it again now</button> <a href="${siteUrl(clientToken)}/verify">How to verify its signature</a></form>`;
}

/** Returns the request of an attempt as HTTP text: its record has the time and the URL, the rest is derived. */
function sentRequest(n: NotificationRecord, attempt: AttemptRecord): string {
  const { headers, body } = notificationRequest(n, [], attempt.at);
  const url = new URL(attempt.url);
  const lines = {
    host: url.host,
    ...headers,
    'webhook-signature': 'v1,… (HMAC-SHA256 with the signing secret of that moment)',
    'content-length': String(Buffer.byteLength(body)),
  };
  return [
    `POST ${attempt.url}/…`,
    ...Object.entries(lines).map(([name, value]) => `${name}: ${value}`),
    '',
    body,
  ].join('\n');
}
