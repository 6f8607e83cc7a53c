/** The desk in a real browser: the tasks of a support person, with clicks counted; with the keyboard alone, and on every screen. */
import assert from 'node:assert/strict';
import type { Browser, Locator, Page } from 'playwright-core';
import { readAttempts } from '../../src/redis/records/attemptHistory.js';
import { createClient, setClient } from '../../src/redis/records/clients.js';
import { endPersonSessions, type Role } from '../../src/redis/records/operatorAccess.js';
import { askForUrl } from '../../src/redis/records/urlRequests.js';
import {
  assertAccessible,
  openWatchedPage,
  screens,
  screensToVisit,
  startChromium,
  visit,
} from '../console/chromium.js';
import { tried } from '../families.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { openForSuite } from '../servers.js';
import { type Customer, newCustomer } from '../service.js';
import { newPersonLink, startDesk } from './scene.js';

describe('desk: in a browser', () => {
  let browser: Browser | undefined;
  before(async function () {
    browser = await startChromium();
    if (browser === undefined) this.skip();
  });
  after(() => browser?.close());
  const scene = openForSuite(async () => {
    const started = await startDesk();
    await started.h.startWorker();
    return started;
  });

  /** Opens a page of a person who has come in by a link. */
  async function comeIn(role: Role, options: Parameters<typeof openWatchedPage>[1] = {}) {
    const opened = await openWatchedPage(browser as Browser, {
      viewport: screens.wide.viewport,
      ...options,
    });
    await opened.page.goto(await newPersonLink(scene, role, 'Ada'));
    await opened.page.waitForURL(`${scene.url}/desk`);
    return opened;
  }
  let customer: Customer;
  let receiver: Receiver;

  /** A customer of four sites, one of which has got a video and is owed another. */
  beforeEach(async () => {
    const { h } = scene;
    receiver = await startReceiver();
    customer = await newCustomer(h);
    for (const n of [2, 3, 4]) {
      const { clientToken } = await createClient(h.db, {
        accountId: customer.account_id,
        name: `Site ${n}`,
        clientToken: `${customer.client_token}-${n}`,
      });
      await h.registerUrl(clientToken, receiver.url);
    }
    await customer.register(`${receiver.url}/hooks?key=url-secret`);
    const { id } = await h.publish({ client: customer.client_token, asset: 'vid-6' });
    await h.delivered(customer.client_token, id);
    receiver.answer = () => 503;
    await h.publish({ client: customer.client_token, asset: 'vid-7' });
    await until('it fails', async () => (await h.endpoint(customer.client_token)).failures > 0);
  });

  const ask = (url: string, reason = 'we have moved') =>
    askForUrl(scene.h.db, scene.h.apiDeps.secretBox, customer.client_token, {
      url,
      reason,
      by: 'token 9f86d081884c',
    });

  const form = (page: Page, name: string) => page.getByRole('region', { name, exact: true });

  /** Does something from the page where it begins, and returns with how many clicks. */
  async function counted(
    what: string,
    page: Page,
    work: (click: (on: Locator) => Promise<void>) => Promise<unknown>,
  ) {
    const begunAt = performance.now();
    let clicks = 0;
    await work(async (on) => {
      clicks++;
      await on.click();
    });
    console.log(`      ${what}: ${clicks} clicks, ${((performance.now() - begunAt) / 1000).toFixed(1)} s`);
    assert.equal(await page.locator('#result.bad').count(), 0);
    return clicks;
  }

  it('pauses a customer of four sites with 3 clicks, finds why a video did not arrive with 3, undoes a wrong URL with 3, sends again since yesterday with 4, and accepts another URL with 1', async () => {
    const { h } = scene;
    const { client_token: client } = customer;
    const { page, complaints } = await comeIn('support');
    const link = (name: string) => page.getByRole('link', { name, exact: true });
    const home = () => page.goto(`${scene.url}/desk`);
    const toSite = () => page.locator(`main a[href="/desk/clients/${client}"]`).first();
    type Click = (on: Locator) => Promise<void>;
    /** What is pasted is sent with Enter. */
    const find = async (click: Click) => {
      await click(link('Find'));
      await page.getByLabel('A customer or site').fill(client);
      await page.keyboard.press('Enter');
      await click(link('Change').first());
    };

    await home();
    const why = await counted('why did vid-7 not arrive', page, async (click) => {
      await click(toSite());
      await click(link('Why was it not sent?'));
      await page.getByLabel('Asset').fill('vid-7');
      await click(page.getByRole('button', { name: 'Explain' }));
      await page.getByText(/It waits: .*503/).waitFor();
    });

    await home();
    receiver.answer = () => 200;
    const resent = await counted('send again since yesterday', page, async (click) => {
      await find(click);
      const card = form(page, 'Send delivered again');
      await card.getByLabel('Delivered since').fill('1d');
      await card.getByLabel('Why').fill('ticket 1: a restore');
      await click(card.getByRole('button', { name: 'Count' }));
      await page.locator('#result', { hasText: /would be owed again/ }).waitFor();
      await page.locator('#result', { hasText: /Delivered from \d{4}-\S+Z to \d{4}-\S+Z/ }).waitFor();
      await click(page.getByRole('button', { name: /^Replay \d+$/ }));
      await page.locator('#result.good', { hasText: /are owed again/ }).waitFor();
    });
    await until(
      'it came again',
      () => receiver.received.filter(({ body }) => body.includes('vid-6')).length > 1,
    );
    await page.getByText('Its server accepts our notifications').waitFor();

    await page.goto(`${scene.url}/desk/clients/${client}/actions`);
    const change = form(page, 'Change URL');
    await change.getByLabel('The new URL').fill(`${receiver.url}/WRONG`);
    await change.getByLabel('Why').fill('ticket 2');
    await change.getByRole('button').click();
    await page.locator('#result', { hasText: 'WRONG' }).waitFor();
    await home();
    const undone = await counted('undo a wrong URL', page, async (click) => {
      await find(click);
      const back = form(page, 'Put back URL');
      await back.getByLabel('Why').fill('ticket 2: a slip');
      await click(back.getByRole('button'));
      await page.locator('#result.good', { hasText: 'key=url-secret' }).waitFor();
    });

    await ask(`${receiver.url}/moved?v=2`);
    await home();
    const answer = page.getByRole('row', { name: /we have moved/ });
    const accepted = await counted('accept another URL', page, async (click) => {
      await click(answer.getByRole('button', { name: 'Accept' }));
      await page.locator('#result.good', { hasText: '/moved?v=2' }).waitFor();
    });
    await answer.waitFor({ state: 'detached' });
    assert.equal((await customer.call('GET', '/push_notifications')).body.url, `${receiver.url}/moved?v=2`);

    await home();
    const paused = await counted('pause a customer of four sites', page, async (click) => {
      await click(link('Customers'));
      await click(page.locator(`a[href="/desk/accounts/${customer.account_id}"]`));
      const card = form(page, 'Pause all sites');
      await card.getByLabel('Why').fill('ticket 3: they migrate');
      await click(card.getByRole('button'));
      await page.locator('#result.good').waitFor();
    });
    for (const suffix of ['', '-2', '-3', '-4'])
      assert.equal((await h.endpoint(client + suffix)).state, 'paused');
    assert.deepEqual(
      { why, resent, undone, accepted, paused },
      { why: 3, resent: 4, undone: 3, accepted: 1, paused: 3 },
    );

    await link('Audit').click();
    await page.getByRole('row', { name: /Ada \(link\) account pause .*ticket 3/ }).waitFor();
    const linesOf = page
      .getByRole('cell', { name: 'registration', exact: true })
      .first()
      .evaluate((cell) => {
        const range = cell.ownerDocument.createRange();
        range.selectNodeContents(cell);
        return range.getClientRects().length;
      });
    assert.equal(await linesOf, 1, 'no short word is broken');
    assert.deepEqual(complaints, []);
  }).timeout(180_000);

  it('says how an answer ended, also if the page is updated before that and after it', async () => {
    await ask(`${receiver.url}/moved`);
    const { page } = await comeIn('support');
    const accept = page.getByRole('row', { name: /we have moved/ }).getByRole('button', { name: 'Accept' });
    await accept.waitFor();
    const updated = () =>
      page.waitForResponse((one) => one.request().method() === 'GET' && one.url() === page.url());
    await page.route('**', async (route) => {
      if (route.request().method() !== 'POST') return route.continue();
      const response = await route.fetch();
      await updated();
      await route.fulfill({ response });
    });
    await accept.click();
    await accept.waitFor({ state: 'detached' });
    await updated();
    await page.locator('#result.good', { hasText: '/moved' }).waitFor();
  }).timeout(60_000);

  it('accepts no other URL than the one that was asked for when the page was opened', async () => {
    const { client_token: client } = customer;
    const { page } = await comeIn('support');
    const result = (tone: string) => page.locator(`#result.${tone}`);
    for (const path of ['', `/clients/${client}`, `/clients/${client}/actions`]) {
      await ask(`${receiver.url}/read`);
      await page.goto(`${scene.url}/desk${path}`);
      const accept = page.locator('form', { has: page.locator(`[value="${client}"]`) });
      const button = accept.getByRole('button', { name: 'Accept', exact: true });
      await button.waitFor();
      await ask(`${receiver.url}/unread`);
      await page.getByText('/unread').first().waitFor();
      await button.click();
      await result('bad').filter({ hasText: 'has no such request' }).waitFor();
      await page.reload();
    }
    await page.getByRole('button', { name: 'Accept', exact: true }).click();
    await result('good').filter({ hasText: '/unread' }).waitFor();
  }).timeout(60_000);

  it('keeps what was written after Back and a reload, and marks what was refused', async () => {
    const { client_token: client } = customer;
    const { page } = await comeIn('support');
    const site = `${scene.url}/desk/clients/${client}`;
    await page.goto(`${site}/actions`);
    const replay = () => form(page, 'Send delivered again');
    await replay().getByLabel('Why').fill('ticket 4');
    await replay()
      .getByLabel(/Also what was/)
      .check();
    const isKept = async () => [
      await replay().getByLabel('Why').inputValue(),
      await replay()
        .getByLabel(/Also what was/)
        .isChecked(),
    ];
    await page.reload();
    assert.deepEqual(await isKept(), ['ticket 4', true]);
    await page.getByRole('link', { name: 'Customers' }).click();
    await page.goBack();
    assert.deepEqual(await isKept(), ['ticket 4', true]);

    const bounds = form(page, 'Change bounds');
    const [perSecond, quiet] = [
      bounds.getByLabel('attempts a second'),
      bounds.getByLabel('The quiet period'),
    ];
    await quiet.fill('60');
    await perSecond.fill('50');
    await setClient(scene.h.db, client, { max_per_second: 5 });
    await page.reload();
    assert.deepEqual([await quiet.inputValue(), await perSecond.inputValue()], ['60', '5']);
    await bounds.getByLabel('Attempts in flight').fill('-1');
    await bounds.getByLabel('Why').fill('ticket 1');
    await bounds.getByRole('button').click();
    await page.locator('#result', { hasText: 'Attempts in flight: Give a whole number' }).waitFor();
    assert.equal(await bounds.getByLabel('Attempts in flight').getAttribute('aria-invalid'), 'true');
  });

  it('leaves what somebody has written in a form when the session has ended, and says so', async () => {
    const { page } = await comeIn('support');
    await page.goto(`${scene.url}/desk/clients/${customer.client_token}/actions`);
    const card = page.locator('section', { hasText: 'Replace the URL immediately' });
    await card.getByLabel('The new URL').fill(`${receiver.url}/next`);
    await card.getByLabel('Why').fill('ticket 4711: they moved');
    await endPersonSessions(scene.h.db);
    await page.getByText('it cannot be updated. Reload it to see why.').waitFor();
    await card.getByRole('button').click();
    await page.locator('#result', { hasText: 'Your session has ended, and nothing was done' }).waitFor();
    const tab = await page.context().newPage();
    await tab.goto(await newPersonLink(scene, 'support', 'Ada'));
    await tab.waitForURL(`${scene.url}/desk`);
    await card.getByRole('button').click();
    await page.locator('#result', { hasText: 'was not sent by a page of your session' }).waitFor();
    assert.equal(await card.getByLabel('Why').inputValue(), 'ticket 4711: they moved');
    await page.context().close();
  });

  it('makes a change once, however often its form is sent before the answer', async () => {
    const { page } = await comeIn('admin');
    await page.goto(`${scene.url}/desk/do/account/create`);
    let letThrough = () => {};
    const pressed = new Promise<void>((resolve) => {
      letThrough = resolve;
    });
    await page.route('**/account/create', (route) => pressed.then(() => route.continue()));
    const times = { 'Once 1': 3, 'Once 2': 1 };
    for (const [name, presses] of Object.entries(times)) {
      await page.getByLabel('Name of the company').fill(name);
      await page.getByLabel('Why').fill('ticket 4711');
      for (let i = 0; i < presses; i++) await page.keyboard.press('Enter');
      letThrough();
      await page.locator('#result', { hasText: name }).waitFor();
    }
    const made = await scene.cli.json('account', 'list', '--name', 'Once');
    assert.deepEqual(made.map(({ name }: { name: string }) => name).sort(), Object.keys(times));
  });

  it('answers a request with the keyboard alone; a form that came after its session keeps nobody out', async () => {
    const { client_token: client } = customer;
    await ask(`${receiver.url}/moved?key=url-secret`);
    for (const [screen, options] of screensToVisit()) {
      const { page } = await comeIn('admin', options);
      await page.goto(`${scene.url}/desk/clients/${client}/actions`);
      await page.context().clearCookies();
      // As a browser without script sends it.
      await page.evaluate(`document.querySelector('form[action$="client/set"]').submit()`);
      await page.getByText('Your session has ended').waitFor();
      await assertAccessible(page, `a form after its session, ${screen}`);
    }
    const { page } = await comeIn('support');
    const decline = page.getByRole('button', { name: 'Decline', exact: true });
    await decline.waitFor();
    for (let i = 0; i < 60 && (await decline.and(page.locator(':focus')).count()) === 0; i++)
      await page.keyboard.press('Tab');
    assert.equal(await page.evaluate('getComputedStyle(document.activeElement).outlineStyle'), 'solid');
    await page.keyboard.press('Enter');
    await page.locator('#result.good').waitFor();
    const { body } = await customer.call('GET', '/push_notifications/url_request');
    assert.equal(body.state, 'declined');
  }).timeout(240_000);

  it('keeps nobody out of a page: axe finds nothing and nothing scrolls sideways, on any screen', async () => {
    const { client_token: client, account_id } = customer;
    const { id } = await scene.h.publish({ client, asset: 'vid-8' });
    await scene.h.sweep();
    await until('the attempts are counted', async () =>
      (await readAttempts(scene.h.db)).some(({ failed }) => 'http_status' in failed),
    );
    await ask(`${receiver.url}/hooks/v2`);
    const site = `/desk/clients/${client}`;
    const paths = {
      now: '/desk',
      find: '/desk/find?q=Example',
      customers: '/desk/accounts',
      customer: `/desk/accounts/${account_id}`,
      site,
      notifications: `${site}/notifications`,
      asset: `${site}/asset?platform_id=vid-7`,
      change: `${site}/actions`,
      history: `${site}/audit`,
      notification: `${site}/notifications/${id}`,
      audit: '/desk/do/audit',
      operations: '/desk/do',
      create: '/desk/do/account/create',
      requests: '/desk/do/registration/requests',
      replay: '/desk/do/notification/replay',
      doctor: '/desk/do/doctor',
      explain: `/desk/do/explain?client_token=${client}&platform_id=vid-7`,
      nowhere: '/desk/nowhere',
      open: '/desk/open',
    };
    for (const [screen, options] of screensToVisit()) {
      if (screen === 'dark' || screen === 'phone') continue;
      const { page } = await comeIn('admin', options);
      for (const [name, path] of tried(Object.entries(paths), 2))
        await visit(page, scene.url + path, `desk-${name}-${screen}`);
    }
  }).timeout(180_000);
});
