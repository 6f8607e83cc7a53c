/** Publishers' requests for another URL that wait, each with the buttons that answer it. */
import { listUrlRequests } from '../acts/urlRequests.js';
import { registrationAccept, registrationDecline, registrationRequests } from '../operator/registration.js';
import type { Db } from '../redis/connection/db.js';
import type { Client } from '../redis/records/clients.js';
import { SecretUnreadable } from '../redis/records/secretBox.js';
import { type Html, html, type Piece } from '../web/html.js';
import { noResult, table } from '../web/page.js';
import { count, fromNow } from '../web/words.js';
import { operationForm, pathOf } from './forms.js';
import { named, namesOf } from './names.js';
import type { DeskVisit } from './people.js';

const shownAtMost = 20;

/** Reads the requests that wait; none, with a warning, if this process may read no secret. */
export const readRequests = ({ operator, warnings }: DeskVisit, client?: Client) =>
  listUrlRequests(operator(), { client }).catch((err: unknown): [] => {
    if (!(err instanceof SecretUnreadable)) throw err;
    warnings.push(`${err.message}.`);
    return [];
  });

type Request = Awaited<ReturnType<typeof readRequests>>[number];

/** The members with which a form answers a request: a click is enough. */
export const answering = ({ client_token, request, reason }: Request) => ({
  client_token,
  request,
  reason: `the publisher asks: ${reason}`.slice(0, 200),
});

export const changeOf = ({ present_url: present, url }: Request): Html =>
  html`${present && shownUrl(present)} → ${shownUrl(url)}`;

const shownUrl = (url: string): Html => {
  const { protocol, host, origin } = new URL(url);
  return html`<code>${protocol}//<strong>${host}</strong>${url.slice(origin.length)}</code>`;
};

export async function requestsPart(visit: DeskVisit, db: Db, client?: Client): Promise<Piece> {
  const waiting = await readRequests(visit, client);
  // What the last answer said stays when its row goes.
  if (waiting.length === 0) return noResult;
  const ids = waiting.flatMap((one) => [one.client_token, one.account_id]);
  const names = await namesOf(db, ids);
  const rows = waiting.slice(0, shownAtMost).map((one) => ({
    // Of the site, not of the request: another request takes the row of the one before, whose form stays and is refused.
    id: `asked-${one.client_token}`,
    cells: [
      named(one.client_token, names),
      one.account_id && named(one.account_id, names),
      changeOf(one),
      one.reason,
      html`${fromNow(Date.parse(one.asked_at))}, by ${one.asked_by}`,
      [registrationAccept, registrationDecline].map((operation) =>
        operationForm(visit, operation, { given: answering(one) }),
      ),
    ],
  }));
  const all = count(waiting.length, 'request waits', 'requests wait');
  return [
    html`<h2>Asked for another URL</h2>`,
    noResult,
    table('Requests for another URL', ['Site', 'Customer', 'Change', 'Why', 'Asked', 'Answer'], rows),
    html`<p><a href="${pathOf(registrationRequests)}">${all}</a></p>`,
  ];
}
