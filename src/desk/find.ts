/** One field that finds whatever an operator was told: a name, a token, a host, an id. */
import { redirect } from '../api/console/door.js';
import { html, type Piece } from '../api/console/html.js';
import { given } from '../api/console/site.js';
import type { Services } from '../api/step.js';
import { isClientToken, isNoticesClient } from '../ids.js';
import { accountList } from '../operator/account.js';
import { clientList } from '../operator/client.js';
import type { Operator } from '../operator/operation.js';
import { temporalWithinMs } from '../operator/status.js';
import { mapInPages } from '../promises.js';
import { explainAsset, isKnown } from '../redis/notifications/decisions.js';
import { notificationOfEvent } from '../redis/notifications/notificationPages.js';
import { findNotification, type ListedNotification } from '../redis/notifications/notifications.js';
import { accountIdOf, getAccount } from '../redis/records/accounts.js';
import { getClient } from '../redis/records/clients.js';
import { siteUrl } from './customer.js';
import { shownParts } from './forms.js';
import type { DeskPage } from './people.js';

/** What was found: pages, and how they are shown if there are several. */
interface Found {
  hrefs: string[];
  shown: Piece;
}

const shownAtMost = 50;
const workflowsAtMost = 20;

/** GET /desk/find: of a single match its page, at once. */
export const findPage: DeskPage = async ({ ctx, operator }, services) => {
  const asked = given(ctx, 'q')?.slice(0, 256);
  const found = asked === undefined ? undefined : await find(services, operator(), asked);
  const [only] = found?.hrefs ?? [];
  if (only !== undefined && found?.hrefs.length === 1) return redirect(ctx, only);
  return {
    title: 'Find',
    body: [
      html`<form class="row" action="/desk/find"><div><label for="q">A customer or site by a part of its name; a client token; the host of a URL; the id of a notification, event, asset or workflow</label>
<input id="q" name="q" value="${asked}" maxlength="256" autocomplete="off" spellcheck="false" required autofocus></div><button>Find</button></form>`,
      found?.shown,
      found?.hrefs.length === 0 &&
        html`<p role="status">Nothing is found by <code>${asked}</code>. What was deleted is in the <a href="/desk/do/audit?of=${encodeURIComponent(asked ?? '')}">audit</a>. An event or asset whose workflow Temporal no longer keeps is found at its site: “Why was it not sent?”</p>`,
    ],
  };
};

async function find(services: Services, operator: Operator, asked: string): Promise<Found> {
  const href = await pageOf(services, asked);
  if (href !== undefined) return { hrefs: [href], shown: '' };
  // Of a pasted URL the host.
  const name = /^https?:/i.test(asked) && URL.canParse(asked) ? new URL(asked).host : asked;
  const lists = [accountList, clientList].map((list) => list.run(operator, { name }, { limit: shownAtMost }));
  const answers = await Promise.all(lists);
  const hrefs = answers
    .flatMap(({ value }) => value as { account_id: string; client_token?: string }[])
    .map((one) => (one.client_token ? siteUrl(one.client_token) : `/desk/accounts/${one.account_id}`));
  if (hrefs.length === 0) return await findInTemporal(services, asked);
  const more = answers.some(({ next }) => next) && html`<p>The first ${shownAtMost} of each are shown.</p>`;
  const filled = answers.filter(({ value }) => (value as unknown[]).length > 0);
  return { hrefs, shown: [...filled.map(({ shown }) => shownParts(shown)), more] };
}

const notificationUrl = ({ clientToken, notificationId }: ListedNotification): string =>
  `${siteUrl(clientToken)}/notifications/${notificationId}`;

/** Finds by an id, which may stand in a workflow's id or in a URL: of Temporal's UI, the console or the desk. */
async function pageOf({ db }: Services, asked: string): Promise<string | undefined> {
  const [msg] = /msg_[\w-]{22}(?![\w-])/.exec(asked) ?? [];
  const notification = msg && (await findNotification(db, msg));
  if (notification) return notificationUrl(notification);
  const id = asked.replace(/^.*(?:catch-up|console\/sites|desk\/clients)(?:\/|%2F)([\w:-]+).*$/, '$1');
  const account = await getAccount(db, id.startsWith('cid_') ? accountIdOf(id) : id);
  if (account !== undefined) return `/desk/accounts/${account.accountId}`;
  const isClient = isClientToken(id) || isNoticesClient(id);
  return isClient && (await getClient(db, id)) ? siteUrl(id) : undefined;
}

/** Finds events and assets by the search attributes of their workflows. */
async function findInTemporal({ db, temporal }: Services, asked: string): Promise<Found> {
  const text = asked.replaceAll(/['"\\]/g, '');
  const tokens = new Set<string>();
  let seen = 0;
  try {
    const query = `EventId = "${text}" OR PlatformId = "${text}"`;
    await temporal.connection.withDeadline(Date.now() + temporalWithinMs, async () => {
      for await (const { searchAttributes } of temporal.workflow.list({ query })) {
        for (const token of (searchAttributes.ClientToken ?? []) as string[]) tokens.add(token);
        if (++seen === workflowsAtMost) break;
      }
    });
  } catch {
    const says = 'Temporal does not answer, so events and assets are not found by their ids alone.';
    return { hrefs: [], shown: html`<div class="notice warn" role="status"><p>${says}</p></div>` };
  }
  const found = await mapInPages([...tokens], workflowsAtMost, async (token) => {
    const event = await notificationOfEvent(db, token, asked);
    if (event !== undefined) return { token, href: notificationUrl(event) };
    const why = await explainAsset(db, token, asked);
    const href = `${siteUrl(token)}/asset?platform_id=${encodeURIComponent(asked)}`;
    return isKnown(why) ? { token, href } : [];
  });
  const pages = found.flat();
  const links = pages.map(({ token, href }) => html`<li><a href="${href}">${asked}</a> of ${token}</li>`);
  const more =
    seen === workflowsAtMost && html`<p>Only ${seen} workflows were looked at: more sites may have it.</p>`;
  return { hrefs: pages.map(({ href }) => href), shown: [html`<ul>${links}</ul>`, more] };
}
