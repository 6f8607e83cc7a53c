import assert from 'node:assert/strict';
import type { Browser } from 'playwright-core';
import { readAttempts } from '../../src/redis/records/attemptHistory.js';
import { endPersonSessions, type Role } from '../../src/redis/records/operatorAccess.js';
import { openWatchedPage, screens, startChromium, visit } from '../console/chromium.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { type Customer, newCustomer, patient } from '../service.js';
import { type DeskScene, newPersonLink, startDesk } from './scene.js';

describe('desk: in a browser', () => {
  let browser: Browser;
  let scene: DeskScene;
  let customer: Customer;
  let [broken, repaired]: Receiver[] = [];
  before(async function () {
    const started = await startChromium();
    if (started === undefined) return this.skip();
    browser = started;
    scene = await startDesk(patient as Record<string, string>);
    await scene.h.startWorker();
  });
  after(async () => {
    await browser?.close();
    await scene?.close();
  });

  /** A site whose receiver answers 503, and that is owed three videos. */
  beforeEach(async () => {
    const { h } = scene;
    [broken, repaired] = [await startReceiver(), await startReceiver()];
    broken.answer = () => 503;
    customer = await newCustomer(h);
    await customer.register(`${broken.url}?key=url-secret`);
    for (const asset of ['vid-7', 'vid-8', 'vid-9'])
      await h.publish({ client: customer.client_token, asset });
    await until('all failed', async () => (await h.endpoint(customer.client_token)).failures >= 3);
  });

  async function comeIn(role: Role, options: Parameters<Browser['newContext']>[0] = {}) {
    const opened = await openWatchedPage(browser, options);
    await opened.page.goto(await newPersonLink(scene, role, 'Ada'));
    await opened.page.waitForURL(`${scene.url}/desk`);
    return opened;
  }

  it('lets a support person find a customer, say why a video was not sent, change the URL, and find oneself in the audit', async () => {
    const { page, complaints } = await comeIn('support', { viewport: { width: 1280, height: 900 } });
    const link = (name: string) => page.getByRole('link', { name, exact: true });
    const begunMs = Date.now();
    await page.getByText('It is them.').waitFor();
    await link('Find').click();
    await page.getByLabel('A customer or site').fill('xample Si');
    await page.keyboard.press('Enter');

    await page
      .getByText(/Its server answers 503\. Every attempt since .* has failed\. 3 videos wait/)
      .waitFor();
    await link('Why was it not sent?').click();
    await page.getByLabel('Asset').fill('vid-9');
    await page.getByRole('button', { name: 'Explain' }).click();
    await page.getByText(/It waits: .*503/).waitFor();

    await link('Change').first().click();
    await page.getByText('3 videos wait and go to the next URL.').waitFor();
    await page
      .getByText(/In force: \d+ \(the default\) attempts in flight, any number a second, quiet period 0 s\./)
      .waitFor();
    const card = page.locator('section', { hasText: 'Replace the URL immediately' });
    await card.getByLabel('The new URL').fill(repaired?.url ?? '');
    await card.getByLabel('Why').fill('ticket 4711: they moved');
    await card.getByRole('button').click();
    await page.locator('#result', { hasText: repaired?.url }).waitFor();
    await page.getByText('Its server accepts our notifications').waitFor();
    assert.equal(repaired?.received.length, 3);

    await link('Audit').click();
    const entry = page.getByRole('row', {
      name: /Ada \(link\) registration change .*ticket 4711: they moved/,
    });
    await entry.first().waitFor();
    const linesOf = page
      .getByRole('cell', { name: 'registration', exact: true })
      .first()
      .evaluate((cell) => {
        const range = cell.ownerDocument.createRange();
        range.selectNodeContents(cell);
        return range.getClientRects().length;
      });
    assert.equal(await linesOf, 1, 'no short word is broken');
    assert.ok(Date.now() - begunMs < 60_000);
    assert.ok(!(await page.content()).includes('url-secret'));
    assert.deepEqual(complaints, []);
  });

  it('leaves what somebody has written in a form when the session has ended, and says so', async () => {
    const { page } = await comeIn('support');
    await page.goto(`${scene.url}/desk/clients/${customer.client_token}/actions`);
    const card = page.locator('section', { hasText: 'Replace the URL immediately' });
    await card.getByLabel('The new URL').fill(repaired?.url ?? '');
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

  it('keeps nobody out of a page: axe finds nothing and nothing scrolls sideways, on any screen', async () => {
    const { client_token: client, account_id } = customer;
    const { id } = await scene.h.publish({ client, asset: 'vid-10' });
    await scene.h.sweep();
    await until('the attempts are counted', async () =>
      (await readAttempts(scene.h.db)).some(({ failed }) => 'http_status' in failed),
    );
    const site = `/desk/clients/${client}`;
    const paths = {
      now: '/desk',
      find: '/desk/find?q=Example',
      customers: '/desk/accounts',
      customer: `/desk/accounts/${account_id}`,
      site,
      notifications: `${site}/notifications`,
      asset: `${site}/asset?platform_id=vid-9`,
      change: `${site}/actions`,
      history: `${site}/audit`,
      notification: `${site}/notifications/${id}`,
      audit: '/desk/do/audit',
      operations: '/desk/do',
      create: '/desk/do/account/create',
      doctor: '/desk/do/doctor',
      explain: `/desk/do/explain?client_token=${client}&platform_id=vid-9`,
      nowhere: '/desk/nowhere',
      open: '/desk/open',
    };
    const { dark: _, phone: __, ...those } = screens;
    for (const [screen, options] of Object.entries(those)) {
      const { page } = await comeIn('admin', options);
      for (const [name, path] of Object.entries(paths))
        await visit(page, scene.url + path, `desk-${name}-${screen}`);
    }
  }).timeout(180_000);
});
