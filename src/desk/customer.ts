/** The pages of a customer and of its sites: what the publisher sees, and what an operator may do. */
import { sitesPart } from '../api/console/account.js';
import { html, type Piece } from '../api/console/html.js';
import { answerNotification, explainedAsset, listedNotifications } from '../api/console/notifications.js';
import { overview } from '../api/console/overview.js';
import { answerPage } from '../api/console/page.js';
import { answerTab, type SiteState, type Tab } from '../api/console/site.js';
import { count, failedNotice, operatorReader } from '../api/console/words.js';
import { readEndpoint } from '../api/endpoints/clients.js';
import type { Services, StepContext } from '../api/step.js';
import { isNoticesClient } from '../ids.js';
import { audit } from '../operator/audit.js';
import { presentWorkflow } from '../operator/explain.js';
import { requireAccount, requireClient } from '../operator/operation.js';
import { type Client, getClient } from '../redis/records/clients.js';
import { noticesRecipient } from '../redis/records/notices.js';
import { cardsOf, shownParts } from './forms.js';
import type { DeskPage, PersonState } from './people.js';

/** GET /desk/accounts/{id} */
export const customerPage: DeskPage = async (ctx, { db }) => {
  const { id = '' } = ctx.params;
  const found = await requireAccount(ctx.state.operator(), id);
  const notices = await getClient(db, noticesRecipient(found));
  answerPage(ctx, {
    title: found.name || id,
    isLive: true,
    body: [
      html`<dl class="facts">
<dt>Account</dt><dd><code>${id}</code>, ${found.disabled ? html`<span class="badge suspended">disabled</span>` : 'enabled'}</dd>
<dt>Client id</dt><dd><code>${found.clientId}</code></dd>
<dt>Scopes</dt><dd>${found.scopes.join(', ')}</dd>
<dt>Notices</dt><dd>${notices ? html`<a href="${siteUrl(notices.clientToken)}">how they stand</a>` : 'no URL is registered'}</dd>
</dl>
<h2>Sites</h2>`,
      await sitesPart(ctx, db, id, siteUrl),
      cardsOf(
        ctx.state,
        { account_id: id, account: id, account_or_client: id },
        { 'account set': `Now: ${found.scopes.join(' ')}.` },
      ),
      await history(ctx, id),
    ],
  });
};

export const siteUrl = (clientToken: string): string => `/desk/clients/${clientToken}`;

/** Shows the newest entries of the audit that name an account, a client or a notification. */
async function history(ctx: StepContext<PersonState>, of: string): Promise<Piece> {
  const input = { since: Date.now() - 30 * 86_400_000, of };
  const { shown } = await audit.run(ctx.state.operator(), input, { limit: 20, isNewest: true });
  return html`<h2>Who did what</h2>${shownParts(shown)}
<p><a href="/desk/do/audit?of=${of}">All of it, in the audit</a></p>`;
}

type DeskSite = PersonState & SiteState & { client: Client };

const tabs: Tab<DeskSite>[] = [
  { path: '', name: 'Overview', present: overview },
  { path: '/notifications', name: 'Notifications', present: listedNotifications },
  { path: '/asset', name: 'Why was it not sent?', present: explainedAsset },
  { path: '/actions', name: 'Change', present: actions },
  { path: '/audit', name: 'Who did what', present: (ctx) => history(ctx, ctx.state.client.clientToken) },
];

const tabPage =
  (tab: Tab<DeskSite>): DeskPage<DeskSite> =>
  (ctx, services) =>
    answerTab(ctx, services, tab, {
      tabs,
      above: failedNotice(
        ctx.state.health,
        () => html`<p>To recover them: <a href="${ctx.state.here}/actions">Change</a>.</p>`,
      ),
      parent: { name: 'Customer', href: `/desk/accounts/${ctx.state.client.accountId}` },
      register: `Its publisher ${isNoticesClient(ctx.state.client.clientToken) ? 'sets one: PUT /notices' : 'registers one: POST /register_push_notifications'}.`,
      resume: html`resume it (<a href="${ctx.state.here}/actions">Change</a>)`,
    });

/** GET /desk/clients/{site}, and the pages below. */
export const sitePages = [
  ...tabs.map((tab) => ({ path: tab.path, answer: sitePage(tabPage(tab)) })),
  { path: '/notifications/:id', answer: sitePage(notificationPage) },
];

function sitePage(answer: DeskPage<DeskSite>): DeskPage {
  return async (ctx, services) => {
    const { site = '' } = ctx.params;
    const { session, operator } = ctx.state;
    const access = session.role === 'look' ? 'read' : 'full';
    Object.assign(ctx.state, {
      client: await requireClient(operator(), site),
      here: siteUrl(site),
      reader: operatorReader,
      session: { ...session, access },
      ...(await readEndpoint(services.db, site)),
    });
    await answer(ctx as StepContext<DeskSite>, services);
  };
}

/** Each change, with its consequences said before. */
function actions({ state }: StepContext<DeskSite>): Piece {
  const { clientToken, maxInFlight = 'default', maxPerSecond = 'default', quietSeconds = 0 } = state.client;
  const { owed } = state.health;
  const waits =
    owed === 0
      ? 'Nothing waits now'
      : `${count(owed, 'video')} ${owed === 1 ? 'waits and goes' : 'wait and go'} to the next URL`;
  return cardsOf(
    state,
    { client_token: clientToken, account_or_client: clientToken },
    {
      'registration change': `${waits}.`,
      'registration reset': `${waits}; until one is registered, nothing is sent.`,
      'registration resume': owed > 0 && `${count(owed, 'video')} owed.`,
      'client set': `Now: in flight ${maxInFlight}, a second ${maxPerSecond}, quiet period ${quietSeconds} s.`,
      'client delete': `This cannot be undone.${owed > 0 ? ` It cancels ${count(owed, 'owed video')}.` : ''}`,
    },
  );
}

function notificationPage(ctx: StepContext<DeskSite>, services: Services): Promise<void> {
  const { here, operator } = ctx.state;
  return answerNotification(ctx, services, async (n) => [
    shownParts([{ facts: await presentWorkflow(operator(), n) }]),
    html`<p><a href="${here}/asset?platform_id=${encodeURIComponent(n.platformId)}">Why: the last event of this asset</a></p>`,
    cardsOf(ctx.state, { notification_id: n.notificationId }),
  ]);
}
