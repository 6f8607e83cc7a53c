import assert from 'node:assert/strict';
import type { Browser, Locator, Page } from 'playwright-core';
import { countAttempts } from '../../src/redis/records/attemptHistory.js';
import { deleteClient } from '../../src/redis/records/deletion.js';
import { setNoticesUrl } from '../../src/redis/records/notices.js';
import { tried } from '../families.js';
import { until } from '../receiver.js';
import { forTest } from '../servers.js';
import { openWatchedPage, screens, screensToVisit, startChromium, visit } from './chromium.js';
import { startScene } from './scene.js';
import { newLink } from './visitor.js';

describe('console: in a browser', () => {
  const scene = forTest(() => startScene());
  let browser: Browser;
  before(async function () {
    const started = await startChromium();
    if (started === undefined) return this.skip();
    browser = started;
  });
  after(() => browser?.close());

  /** A page that has come in by a link; whatever a browser complains of fails the test. */
  async function comeIn(options: Parameters<Browser['newContext']>[0] = {}) {
    const { page, complaints } = await openWatchedPage(browser, options);
    await page.goto(await newLink(scene.h, scene.token));
    await page.waitForURL(`${scene.h.url}/console`);
    return { page, complaints };
  }

  /** A site that has delivered, then fails with three videos that wait, and an account that gets a notice of it. */
  async function fail(): Promise<string[]> {
    const { h, customer, receiver } = scene;
    await setNoticesUrl(h.db, h.apiDeps.secretBox, customer.account_id, receiver.url);
    await scene.register();
    await scene.publish('vid-good', 'delivered');
    receiver.answer = ({ headers }) => (isNotice(headers['webhook-client-token']) ? 200 : 503);
    const assets = ['vid-1', 'vid-2', 'vid-3'];
    const ids = await Promise.all(assets.map((asset) => scene.publish(asset, 'waiting')));
    await until('the notice is there', async () => notices().length > 0);
    return ids;
  }
  const isNotice = (clientToken: unknown) => String(clientToken).startsWith('notices:');
  const notices = () =>
    scene.receiver.received.filter(({ headers }) => isNotice(headers['webhook-client-token']));

  /** Reaches an element with the Tab key alone, sees that the focus shows there, and presses Enter. */
  async function press(page: Page, element: Locator): Promise<void> {
    await element.waitFor();
    for (let i = 0; i < 80; i++) {
      await page.keyboard.press('Tab');
      if ((await element.and(page.locator(':focus')).count()) === 0) continue;
      const outline = await page.evaluate('getComputedStyle(document.activeElement).outlineStyle');
      assert.equal(outline, 'solid', await element.innerText());
      return await page.keyboard.press('Enter');
    }
    assert.fail(`Tab does not reach ${element}`);
  }

  it('leads from a link to what fails and what to do, at a phone’s width, with the keyboard alone', async () => {
    await fail();
    const { receiver } = scene;
    const { page, complaints } = await comeIn(screens.phone);
    const link = (name: string) => page.getByRole('link', { name, exact: true });
    const button = (name: string) => page.getByRole('button', { name, exact: true });

    await page.getByText('answers 503').waitFor();
    await press(page, link('Example Site'));
    await page
      .getByText(
        /Your server answers 503\. Every attempt since .* has failed\. 3 videos wait\. We try one of them/,
      )
      .waitFor();
    await press(page, link('answers 503'));
    // The notification that failed last, with the receiver's own words.
    await page.getByText('It waits').waitFor();
    await press(page, page.locator('#attempt-1 summary'));
    await page.getByText('webhook-client-token').waitFor();
    receiver.answer = () => 200;
    await press(page, button('Send it again now'));
    await page.getByText('It is due now').waitFor();
    await page.getByText('You did get it').waitFor();
    await press(page, page.getByRole('link', { name: '‹ Example Site' }));
    await page.getByText('Your server accepts our notifications').waitFor();
    await press(page, link('Notices'));
    await page.getByText('endpoint.failing').waitFor();
    const before = notices().length;
    await press(page, button('Send a test'));
    await page.getByText('Your endpoint answered 200').waitFor();
    assert.equal(JSON.parse(notices()[before]?.body ?? '').event, 'test');
    await press(page, button('Sign out'));
    await page.getByText('You are not signed in').waitFor();
    assert.deepEqual(complaints, []);
  });

  it('carries out each button in place, and shows changes without a reload', async () => {
    const { receiver, site } = scene;
    const { page, complaints } = await comeIn();
    await page.getByRole('link', { name: 'Example Site' }).click();
    await page.getByText('No URL is registered, so nothing is sent.').waitFor();
    await scene.register();
    await page.locator('.badge.active').waitFor();
    receiver.answer = () => 503;
    for (const asset of ['vid-1', 'vid-2', 'vid-3']) await scene.publish(asset, 'waiting');
    await page.getByText('3 videos wait').waitFor();
    receiver.answer = () => 200;
    await page.getByRole('navigation', { name: 'This site' }).getByRole('link', { name: 'Actions' }).click();
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByText('A probe goes out now').waitFor();
    assert.ok(await page.evaluate('document.activeElement.id === "result"'), 'it is read out');
    await page.getByText('Your server accepts our notifications').waitFor();
    assert.equal(page.url(), `${scene.h.url}${site}/actions`);

    await page.getByRole('link', { name: 'Verify signatures' }).click();
    await page.getByText('Python', { exact: true }).click();
    await page.getByRole('button', { name: 'Copy Python' }).click();
    await page.getByText(/Copied|Selected/).waitFor();
    assert.deepEqual(complaints, []);
  });

  it('makes one secret of a double click, and says while a page is not updated, as after its site is deleted', async () => {
    const { h, customer, site } = scene;
    await scene.register();
    const { page } = await comeIn();
    await page.goto(`${h.url}${site}/actions`);
    const rotations: string[] = [];
    page.on('request', (sent) => sent.url().endsWith('/rotate') && rotations.push(sent.url()));
    await page.getByText('Make a new one').click();
    await page.getByRole('button', { name: 'Make a new secret now' }).dblclick();
    await page.getByText('New secret created.').waitFor();
    await page.getByText('1 earlier secret remains').waitFor();
    assert.equal(rotations.length, 1);

    const isStale = page.getByText(
      /^This page is as of \d\d:\d\d:\d\d UTC: it cannot be updated\. Reload it to see why\.$/,
    );
    for (const refuse of [{ status: 503 }, undefined]) {
      await page.route(`**${site}/actions`, (route) => (refuse ? route.fulfill(refuse) : route.abort()));
      await isStale.waitFor();
      await page.unroute(`**${site}/actions`);
      await isStale.waitFor({ state: 'detached' });
    }
    await deleteClient(h.db, customer.client_token);
    await isStale.waitFor();
    await page.reload();
    await page.getByText('The client token is not valid for this account').waitFor();
  }).timeout(60_000);

  it('opens a link that is pasted over the page that asks for it, and leads to what was asked for', async () => {
    const { page, complaints } = await openWatchedPage(browser);
    await page.goto(`${scene.h.url}${scene.site}/actions`);
    await page.waitForURL(`${scene.h.url}/console/open`);
    await page.goto(await newLink(scene.h, scene.token));
    await page.waitForURL(`${scene.h.url}${scene.site}/actions`);
    assert.deepEqual(complaints, []);
  });

  it('turns no text after an id that turns text', async () => {
    const { page } = await comeIn();
    await page.goto(`${scene.h.url}${scene.site}/asset?platform_id=%E2%80%AEcba`);
    const [id = 0, after = 0] = await page.evaluate<number[]>(`(() => {
      const id = document.querySelector('[role=status] code');
      const after = document.createRange();
      after.setStart(id.nextSibling, 1);
      after.setEnd(id.nextSibling, 3);
      return [id, after].map((one) => one.getBoundingClientRect().left);
    })()`);
    assert.ok(id < after);
  });

  it('keeps nobody out of a page: axe finds nothing and nothing scrolls sideways, on any screen', async () => {
    const { h, customer, site } = scene;
    const [id = ''] = await fail();
    await countPastDay();
    const paths = {
      sites: '/console',
      site,
      notifications: `${site}/notifications`,
      notification: `${site}/notifications/${id}`,
      asset: `${site}/asset?platform_id=vid-1`,
      actions: `${site}/actions`,
      verify: `${site}/verify`,
      notices: '/console/notices',
      nowhere: '/console/nowhere',
      open: '/console/open',
    };
    for (const [screen, options] of screensToVisit()) {
      const { page } = await comeIn(options);
      for (const [name, path] of tried(Object.entries(paths), 2))
        await visit(page, scene.h.url + path, `console-${name}-${screen}`);
    }

    /** Attempts of the hours before this test, for the plots. */
    async function countPastDay(): Promise<void> {
      const { db, deps } = h;
      for (let step = 1; step < 288; step++) {
        const then = { ...db, clockOffsetMs: () => -step * 300_000 };
        const history = countAttempts(then, deps.log);
        const isOutage = step > 70 && step < 95;
        for (let i = 0; i < 12 + (step % 7); i++) {
          const ok = !isOutage || i % 3 === 0;
          const error = i % 2 ? 'timeout' : 'http_status';
          history.count(customer.client_token, { ok, error }, isOutage ? 900 + 300 * i : 40 + 20 * (i % 5));
        }
        await history.close();
      }
    }
  }).timeout(180_000);
});
