import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Browser } from 'playwright-core';
import { until } from '../receiver.js';
import { chromiumPath, startChromium } from './chromium.js';
import { type Scene, startScene } from './scene.js';
import { newLink } from './visitor.js';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core'), 'utf8');

describe('console: in a browser', () => {
  let scene: Scene;
  let browser: Browser;
  before(async function () {
    const path = chromiumPath();
    if (path === undefined) return this.skip();
    browser = await startChromium(path);
  });
  beforeEach(async () => {
    scene = await startScene();
  });
  afterEach(() => scene.close());
  after(() => browser?.close());

  /** A page that has come in by a link; whatever a browser complains of fails the test. */
  async function comeIn(options: Parameters<Browser['newContext']>[0] = {}) {
    const context = await browser.newContext(options);
    const page = await context.newPage();
    const complaints: string[] = [];
    page.on(
      'console',
      (message) => ['error', 'warning'].includes(message.type()) && complaints.push(message.text()),
    );
    page.on('pageerror', (err) => complaints.push(String(err)));
    await page.goto(await newLink(scene.api, scene.token));
    await page.waitForURL(`${scene.api.url}/console`);
    return { page, complaints };
  }

  it('carries out each button in place, and shows changes without a reload', async () => {
    const { receiver, site, customer } = scene;
    const { page, complaints } = await comeIn();
    const link = page.getByRole('link', { name: 'Example Site' });
    await link.click();
    await page.getByText('no URL', { exact: true }).waitFor();
    await scene.register();
    await page.locator('.badge.active').waitFor();
    await page.locator('.uplot canvas').nth(2).waitFor();

    receiver.answer = () => 503;
    for (const asset of ['vid-1', 'vid-2', 'vid-3']) await scene.publish(asset, 'waiting');
    await page.getByText('3 notifications are owed').waitFor();
    await page.getByRole('link', { name: 'Notifications', exact: true }).click();
    await page.getByLabel('State').selectOption('waiting');
    await page.getByLabel('Asset').fill('vid-2');
    await page.getByRole('button', { name: 'Filter' }).click();
    assert.equal(await page.locator('tbody tr').count(), 1);
    await page.getByRole('link', { name: 'vid-2' }).click();
    await page.locator('#attempt-1 summary').click();
    await page.getByText('webhook-client-token').waitFor();

    await page.getByRole('button', { name: 'Send it again now' }).click();
    await page.getByText('It is due now').waitFor();
    await until('its probe failed', () => receiver.idsOf('vid-2').length === 2);
    receiver.answer = () => 200;
    await page.getByRole('link', { name: 'Actions' }).click();
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByText('A probe goes out now').waitFor();
    assert.ok(await page.evaluate('document.activeElement.id === "result"'), 'it is read out');
    await page.getByRole('button', { name: 'Send a test' }).click();
    await page.getByText('Your endpoint answered 200').waitFor();
    await page.getByRole('button', { name: 'Count' }).click();
    await page.getByText('Nothing in that time ended as failed').waitFor();
    await page.getByRole('button', { name: 'Show it' }).click();
    const first = await page.locator('#secret').textContent();
    await page.getByRole('button', { name: 'Make a new one' }).click();
    await page.getByText('signs along until').first().waitFor();
    assert.notEqual(await page.locator('#secret').textContent(), first);
    assert.equal(page.url(), `${scene.api.url}${site}/actions`);

    await page.getByRole('link', { name: 'Why did I get nothing?' }).click();
    await page.getByLabel('Asset').fill('vid-3');
    await until('it is delivered', () => receiver.idsOf('vid-3').length === 2);
    await page.getByRole('button', { name: 'Explain' }).click();
    await page.getByText('You did get it').waitFor();
    await page.getByRole('link', { name: 'Verify signatures' }).click();
    await page.getByText('Python', { exact: true }).click();
    await page.getByRole('button', { name: 'Copy Python' }).click();
    await page.getByText(/Copied|Selected/).waitFor();

    await page.getByRole('link', { name: 'Sites' }).click();
    await page.getByLabel('Go to a site').fill(customer.client_token);
    await page.getByRole('button', { name: 'Go' }).click();
    await page.waitForURL(scene.api.url + site);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByText('You are not signed in').waitFor();
    assert.deepEqual(complaints, []);
    await page.context().close();
  });

  it('works without script: a link can be pasted, and forms answer with a page', async () => {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    const link = await newLink(scene.api, scene.token);
    await page.goto(link);
    await page.getByLabel('Link').fill(link);
    await page.getByRole('button', { name: 'Open' }).click();
    await page.goto(`${scene.api.url}${scene.site}/actions`);
    await page.getByRole('button', { name: 'Count' }).click();
    await page.getByText('Nothing in that time ended as failed').waitFor();
    await context.close();
  });

  for (const colorScheme of ['light', 'dark'] as const) {
    it(`nothing keeps people out of a page, in ${colorScheme} colours and at a phone’s width (axe-core)`, async () => {
      const { page } = await comeIn({ colorScheme, viewport: { width: 390, height: 844 } });
      await scene.register();
      await scene.publish('vid-good', 'delivered');
      scene.receiver.answer = () => 503;
      const id = await scene.publish('vid-axe', 'waiting');
      const { site } = scene;
      const signedIn = [
        '',
        '/notifications',
        `/notifications/${id}`,
        '/asset?platform_id=vid-axe',
        '/actions',
        '/verify',
      ];
      for (const path of [
        '/console',
        ...signedIn.map((part) => site + part),
        '/console/nowhere',
        '/console/open',
      ]) {
        await page.goto(scene.api.url + path);
        for (const summary of await page.locator('summary').all()) await summary.click();
        // From outside: the page itself would not load it.
        await page.evaluate(axe);
        const found = await page.evaluate(
          'axe.run().then(({ violations }) => violations.map(({ id, nodes }) => id + ": " + nodes.map((n) => n.html)))',
        );
        assert.deepEqual(found, [], path);
        const overflow = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth');
        assert.ok(overflow <= 0, `${path} is ${overflow} px too wide`);
      }
      await page.context().close();
    });
  }
});
