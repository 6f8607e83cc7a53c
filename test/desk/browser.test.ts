import assert from 'node:assert/strict';
import { readAttempts } from '../../src/redis/records/attemptHistory.js';
import { endPersonSessions } from '../../src/redis/records/operatorAccess.js';
import { askForUrl } from '../../src/redis/records/urlRequests.js';
import { screensToVisit, visit } from '../console/chromium.js';
import { tried } from '../families.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { type Customer, newCustomer, patient } from '../service.js';
import { useDeskInBrowser } from './inBrowser.js';
import { newPersonLink } from './scene.js';

describe('desk: in a browser', () => {
  const { scene, comeIn } = useDeskInBrowser(patient as Record<string, string>);
  let customer: Customer;
  let [broken, repaired]: Receiver[] = [];

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

  it('lets a support person find a customer, say why a video was not sent, change the URL, and find oneself in the audit', async () => {
    const { page, complaints } = await comeIn('support', { viewport: { width: 1280, height: 900 } });
    const link = (name: string) => page.getByRole('link', { name, exact: true });
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
      .getByText(/The default is \d+ attempts in flight, any number a second, quiet period 0 s\./)
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

  it('says what each form does, deletes only what was typed out, marks what was refused, and takes back a wrong URL', async () => {
    const { page, complaints } = await comeIn('admin');
    const { client_token: client } = customer;
    const site = `${scene.url}/desk/clients/${client}`;
    await page.goto(`${site}/actions`);
    assert.match(await page.title(), /: Change · /);
    const form = (name: string) => page.getByRole('region', { name, exact: true });
    const bounds = form('Change bounds');
    await bounds.getByLabel('Attempts in flight').fill('-1');
    await bounds.getByLabel('Why').fill('ticket 1');
    await bounds.getByRole('button').click();
    await page.locator('#result', { hasText: 'Attempts in flight: Give a whole number' }).waitFor();
    assert.equal(await bounds.getByLabel('Attempts in flight').getAttribute('aria-invalid'), 'true');
    await page.reload();
    assert.equal(
      await form('Change bounds').getByLabel('Why').inputValue(),
      'ticket 1',
      'a reload loses nothing',
    );
    const gone = form('Delete site');
    await gone.getByLabel(`Type ${client} to confirm`).fill('another');
    await gone.getByLabel('Why').fill('ticket 2');
    await gone.getByRole('button').click();
    await page
      .locator('#result', { hasText: 'To confirm: is not the name of what is to be deleted' })
      .waitFor();
    const change = form('Change URL');
    await change.getByLabel('The new URL').fill(`${broken?.url}/WRONG`);
    await change.getByLabel('Why').fill('ticket 3');
    await change.getByRole('button').click();
    await page.locator('#result', { hasText: 'WRONG' }).waitFor();
    await page.reload();
    const back = form('Put back URL');
    assert.match((await back.getByRole('combobox').textContent()) ?? '', /key=url-secret/);
    await back.getByLabel('Why').fill('ticket 4: a slip');
    await back.getByRole('button').click();
    await page.locator('#result.good', { hasText: 'key=url-secret' }).waitFor();
    await page.goto(`${site}/notifications?failure=http_status`);
    const row = page.getByRole('row', { name: /vid-9 waiting .* 503 \d+ ms/ });
    await row.waitFor();
    await page.getByLabel('Why').fill('ticket 5');
    await page.getByRole('button', { name: 'Count' }).click();
    await page.locator('#result', { hasText: '3 would be sent again' }).waitFor();
    await page.getByRole('button', { name: 'Resend 3' }).click();
    await page.locator('#result.good', { hasText: '3 are sent again' }).waitFor();
    // A browser complains of each answer of 400.
    assert.deepEqual(
      complaints.filter((one) => !/400/.test(one)),
      [],
    );
  }).timeout(180_000);

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
    const asked = { url: `${repaired?.url}/hooks/v2`, reason: 'we have moved', by: 'token 9f86d081884c' };
    await askForUrl(scene.h.db, scene.h.apiDeps.secretBox, client, asked);
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
      requests: '/desk/do/registration/requests',
      replay: '/desk/do/notification/replay',
      doctor: '/desk/do/doctor',
      explain: `/desk/do/explain?client_token=${client}&platform_id=vid-9`,
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
