/** The notifications of a site: the list, one of them with its attempts, and why an asset got none. */
import { notificationsQuery, readPage } from '../acts/notifications.js';
import { isOfFailure } from '../acts/sendAgain.js';
import { requireNotification } from '../acts/subjects.js';
import { checked } from '../http/checked.js';
import { parseParameters } from '../http/query.js';
import { attemptErrors, explainFailure, explainRemarks } from '../outgoing/details.js';
import { notificationRequest } from '../outgoing/notification.js';
import {
  type AssetExplanation,
  decisionInWords,
  explainAsset,
  isKnown,
  whyNotSent,
} from '../redis/notifications/decisions.js';
import { listNotifications as listRecords, type Position } from '../redis/notifications/notificationPages.js';
import { type NotificationRecord, readAttemptsOf } from '../redis/notifications/notifications.js';
import { type AttemptRecord, notificationStates } from '../redis/owed/standing.js';
import { type Html, html, type Piece } from './html.js';
import { actionForm, noResult, type Page, table } from './page.js';
import { given, home, type PageDeps, readingsOf, type Site, type SitePart } from './site.js';
import {
  badge,
  choiceField,
  count,
  exactly,
  nextAttempt,
  type Reader,
  stateField,
  stateInWords,
  stateSentence,
} from './words.js';

/** Fields of a browser have no zone, and no seconds of a whole minute: times of these pages are UTC. */
const inUtc = (time: string | undefined) => time?.replace(/T\d\d:\d\d$/, '$&:00').replace(/T[\d:]+$/, '$&Z');

export function filtersOf({ ctx }: Pick<Site, 'ctx'>) {
  const [state, failure, since, until] = ['state', 'failure', 'since', 'until'].map((name) =>
    given(ctx, name),
  );
  return { state, failure, since: inUtc(since), until: inUtc(until) };
}

/** With a filter that no list has, a page is what matches of so many. */
const lookedAt = '200';

/** GET /console/sites/{site}/notifications: newest first, page by page, by state, asset, time and failure. */
export const listedNotifications: SitePart = async (site, { db }) => {
  const { ctx, client } = site;
  const here = `${site.here}/notifications`;
  const platform_id = (await askedAsset(site, db))?.platformId;
  const { failure, ...times } = filtersOf(site);
  const { state, since, until } = times;
  const limit = failure && lookedAt;
  const query = checked(notificationsQuery, { ...times, platform_id, limit, cursor: given(ctx, 'cursor') });
  const found = await readPage(db, client, query, site.countPiece);
  const ids = found.notifications.map(({ notificationId }) => notificationId);
  const attempts = await readAttemptsOf(db, client.clientToken, ids);
  const all = found.notifications.map((n, i) => ({ n, attempts: attempts[i] ?? [] }));
  const rows = all
    .filter((one) => isOfFailure(one.attempts, failure))
    .map(({ n, attempts }) => {
      const last = attempts.at(-1);
      return {
        id: n.notificationId,
        cells: [
          // The record of a failed one may be gone.
          n.state === 'failed'
            ? html`<a href="${site.here}/asset?platform_id=${encodeURIComponent(n.platformId)}">${n.platformId}</a>`
            : html`<a href="${here}/${n.notificationId}">${n.platformId}</a>`,
          badge(n.state),
          exactly(n.acceptedAt),
          attempts.length,
          last && (last.status ?? last.detail ?? last.error),
          last && `${last.milliseconds} ms`,
          nextAttempt(n),
        ],
      };
    });
  const { cursor, since: completeSince } = found;
  // A filter that matches few notifications is searched in several requests.
  const none = cursor
    ? 'None among the newest; look further back:'
    : `There are no such notifications${query.cursor ? ' that are older' : ''}.`;
  const asked = Object.entries({ state, failure, since, until, platform_id, cursor });
  const more = String(
    new URLSearchParams(asked.flatMap(([name, value]) => (value ? [[name, value] as [string, string]] : []))),
  );
  const moment = (name: string, label: string, value = '') =>
    html`<div><label for="${name}">${label}</label><input id="${name}" name="${name}" type="datetime-local" step="1" value="${value.replace(/(\.\d+)?Z$/, '')}"></div>`;
  const columns = ['Asset', 'State', 'Accepted', 'Attempts', 'Last answer', 'Took', 'Next attempt'];
  return [
    html`<form class="row" action="${here}">
${stateField(notificationStates, state)}${choiceField('failure', 'Last attempt', ['failed', ...attemptErrors], failure)}
${moment('since', 'Accepted since (UTC)', since)}${moment('until', 'until (UTC)', until)}
<div><label for="platform_id">Asset</label><input id="platform_id" name="platform_id" value="${platform_id}" autocomplete="off" spellcheck="false" placeholder="its platform_id"></div>
<button class="quiet">Filter</button></form>`,
    rows.length === 0 ? html`<p>${none}</p>` : table('Notifications', columns, rows),
    !cursor &&
      completeSince !== undefined &&
      html`<p>The list is complete since ${exactly(completeSince)}.</p>`,
    cursor && html`<p><a href="${here}?${more}" rel="next">Older notifications</a></p>`,
  ];
};

/** GET /console/sites/{site}/notifications/{id} */
export const notificationPage = (site: Site, { db }: PageDeps): Promise<Page> =>
  pageOfNotification(site, db, ({ notificationId }) => {
    const again = `${site.here}/notifications/${notificationId}/redeliver`;
    return [noResult, site.access === 'full' && actionForm(again, site.formToken, 'Send it again now')];
  });

/** Shows one notification, what its reader may do, each attempt and the request that it sent. */
export async function pageOfNotification(
  site: Site,
  db: PageDeps['db'],
  formsOf: (n: NotificationRecord) => Piece | Promise<Piece>,
): Promise<Page> {
  const { client, reader, ctx } = site;
  const n = await requireNotification(db, client, ctx.params.id);
  const body = [
    outcome(n, reader),
    html`<dl class="facts">
<dt>State</dt><dd>${badge(n.state)}</dd>
${n.state === 'waiting' && html`<dt>Next attempt</dt><dd>${nextAttempt(n)}</dd>`}
<dt>Accepted</dt><dd>${exactly(n.acceptedAt)}</dd>
${n.endedAt !== undefined && html`<dt>Ended</dt><dd>${exactly(n.endedAt)}</dd>`}
<dt>Notification</dt><dd><code>${n.notificationId}</code>, the <code>webhook-id</code> of every attempt</dd>
<dt>Event</dt><dd><code>${n.eventId}</code>, ${n.priority}</dd>
</dl>`,
    await formsOf(n),
    attempts(n, reader),
  ];
  return { title: n.platformId, parent: home(site), isLive: true, body };
}

function attempts(n: NotificationRecord, reader: Reader): Html {
  if (n.attempts.length === 0) return html`<h2>Attempts</h2><p>None so far.</p>`;
  const shown = n.attempts.map((attempt, i) => attemptDetails(n, attempt, i + 1, reader)).reverse();
  return html`<h2>${count(n.attempts.length, 'attempt')}</h2>
<p>The request is put together again from the attempt’s record. Left out are the path and query of the URL and added headers, which may hold a secret, and the signature, which is not kept.</p>
${shown}`;
}

const attemptDetails = (
  n: NotificationRecord,
  attempt: AttemptRecord,
  number: number,
  { whose, contact }: Reader,
): Html =>
  html`<details id="attempt-${number}"><summary><strong>${attempt.status ?? attempt.detail ?? attempt.error}</strong> ${attempt.status !== undefined && attempt.error !== undefined && html`(${attempt.error}) `}at ${exactly(attempt.at)}, after ${attempt.milliseconds} ms${attempt.remote_address && html`, from ${attempt.remote_address}`}</summary>
${attempt.error !== undefined && html`<p>${whose} server ${explainFailure(attempt).does}. ${explainFailure(attempt, contact).advice}</p>`}
${explainRemarks(attempt.remarks, whose).map((text) => html`<p>${text}</p>`)}
<h3>Request</h3><pre>${sentRequest(n, attempt, number)}</pre>
${attempt.response_excerpt && html`<h3>The answer’s first 1 KiB</h3><pre>${attempt.response_excerpt}</pre>`}</details>
`;

/** Returns the request of an attempt as HTTP text: its record has the time and the URL, the rest is derived. */
function sentRequest(n: NotificationRecord, attempt: AttemptRecord, number: number): string {
  const { headers, body } = notificationRequest({ ...n, attempt: number }, [], attempt.at);
  const lines = {
    host: new URL(attempt.url).host,
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

/** GET /console/sites/{site}/asset: says why something was or was not sent about an asset. */
export const explainedAsset: SitePart = async (site, { db }) => {
  const why = await askedAsset(site, db);
  const near = why && !isKnown(why) ? await assetsWith(site, db, why.platformId) : undefined;
  return [
    html`<form class="row" action="${site.here}/asset"><div><label for="platform_id">Asset</label>
<input id="platform_id" name="platform_id" value="${why?.platformId}" autocomplete="off" spellcheck="false" placeholder="its platform_id" required></div><button>Explain</button></form>`,
    near?.ids.length
      ? html`<p>Videos of this site whose ids have <code>${why?.platformId}</code>${near.isCut && ' (the first)'}:</p><ul>${near.ids.map((id) => html`<li><a href="${site.here}/asset?platform_id=${encodeURIComponent(id)}">${id}</a></li>`)}</ul>`
      : why && explanation(site, why),
  ];
};

const nearAtMost = 20;
const searchMs = 2000;

/** Finds videos by a part of their ids, among the newest notifications of a site, for two seconds at most. */
async function assetsWith({ client: { clientToken }, countPiece }: Site, db: PageDeps['db'], part: string) {
  const ids = new Set<string>();
  const endMs = performance.now() + searchMs;
  for (let behind: Position | undefined, isFirst = true; isFirst || behind; isFirst = false) {
    const page = await listRecords(db, clientToken, { limit: 200, behind }, countPiece);
    for (const { platformId } of page.notifications) if (platformId.includes(part)) ids.add(platformId);
    behind = page.next;
    if (ids.size >= nearAtMost || performance.now() > endMs)
      return { ids: [...ids].slice(0, nearAtMost), isCut: behind !== undefined };
  }
  return { ids: [...ids], isCut: false };
}

/** Explains what a pasted id most likely names; undefined if none is given. */
export async function askedAsset({ ctx, client }: Pick<Site, 'ctx' | 'client'>, db: PageDeps['db']) {
  const asked = parseParameters(ctx.querystring).get('platform_id') ?? '';
  const ids = readingsOf(asked);
  const whys = await Promise.all(ids.map((id) => explainAsset(db, client.clientToken, id)));
  return whys.find(isKnown) ?? whys.at(ids.indexOf(asked.trim()));
}

function explanation({ here, reader }: Site, why: AssetExplanation): Piece {
  const { lastEvent, lastNotification: last, knownSegments, platformId } = why;
  if (!isKnown(why))
    return html`<div class="notice warn" role="status"><p>Nothing is known about the asset <code>${platformId}</code> of this site: no event of the last 14 days has named it, and no kept notification has such a part in its id.</p><p>Compare the id with what the video platform has; upper and lower case differ.</p></div>`;
  return [
    lastEvent === undefined
      ? notice('warn', 'The decision about its last event is older than what is kept.')
      : lastEvent.decision !== 'queued' &&
        notice(
          'warn',
          `The last event notified nobody: ${whyNotSent[lastEvent.decision]}.${last ? ' Before that:' : ''}`,
        ),
    last && outcome(last, reader),
    html`<dl class="facts">
<dt>Last event</dt><dd>${lastEvent ? html`<code>${lastEvent.eventId}</code> at ${exactly(lastEvent.at)}` : 'more than 14 days ago'}</dd>
<dt>Decision</dt><dd>${decisionInWords(why)}</dd>
<dt>Known segments</dt><dd>${count(knownSegments, 'segment')}: only an event that brings another one makes a notification</dd>
${
  last &&
  html`<dt>Last notification</dt><dd><a href="${here}/notifications/${last.notificationId}">${last.notificationId}</a>, ${badge(last.state)}</dd>
<dt>Attempts</dt><dd>${last.attempts.length}</dd>`
}
</dl>`,
  ];
}

const notice = (tone: 'good' | 'warn', says: Piece): Html =>
  html`<div class="notice ${tone}" role="status"><p class="lead">${says}</p></div>`;

function outcome(n: NotificationRecord, { gotIt, tell }: Reader): Html {
  const last = n.attempts.at(-1);
  const why = stateSentence(n);
  switch (n.state) {
    case 'delivered':
      return notice(
        'good',
        html`${gotIt} ${last?.status ?? '2xx'} at ${exactly(n.endedAt ?? n.acceptedAt)}. ${tell}Look for its <code>webhook-id</code> in your log.`,
      );
    case 'waiting':
      return notice(
        'warn',
        html`It waits: ${why}.${last && html` The last attempt came to ${last.status ?? last.detail ?? last.error}.`}`,
      );
    default:
      return notice('warn', `It is ${stateInWords(n.state)}${why && `: ${why}`}.`);
  }
}
