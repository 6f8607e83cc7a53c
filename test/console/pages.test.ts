import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { html } from '../../src/api/console/html.js';
import { projectDir } from '../../src/operator/running/projectDir.js';
import { newCustomer } from '../api/runningApi.js';
import { allExamples } from '../examples/examples.js';
import { type Scene, startScene } from './scene.js';

describe('console: the pages of a site', () => {
  let scene: Scene;
  before(async () => {
    scene = await startScene();
  });
  after(() => scene.close());

  it('says how much is owed and when the next attempt is', async () => {
    const { visitor, site, receiver } = scene;
    assert.match((await visitor.get(site)).html, /no URL<\/span> Nothing is owed/);
    await scene.register();
    await scene.publish('vid-good', 'delivered');
    receiver.answer = () => 500;
    await scene.publish('vid-bad', 'waiting');
    const { html } = await visitor.get(site);
    assert.match(
      html,
      /1 notification is owed, the oldest for <time[^>]*>\d s<\/time>. The next attempt is <time[^>]*>in 1\d min/,
    );
    assert.ok(html.includes(`<code>${receiver.url}</code>`));
    assert.match(html, /<td>no URL<\/td><td>active<\/td><td>registered<\/td>/);
  });

  it('names the client’s own request headers, without their values', async () => {
    const { visitor, site } = scene;
    assert.doesNotMatch((await visitor.get(site)).html, /Headers of your own/);
    const headers = { Authorization: 'Bearer open-sesame', 'X-Key': 'open-sesame' };
    await scene.call('PUT', '/push_notifications/headers', { headers });
    const { html } = await visitor.get(site);
    assert.match(
      html,
      /Headers of your own<\/dt><dd><code>authorization<\/code>, <code>x-key<\/code>, sent with each notification/,
    );
    assert.ok(!html.includes('open-sesame'));
    await scene.call('PUT', '/push_notifications/headers', { headers: {} });
  });

  it('lists the notifications asked for, and shows the attempts and requests of each', async () => {
    const { visitor, site, receiver, customer } = scene;
    const id = await scene.publish('vid-<b>&"', 'waiting');
    const list = await visitor.get(`${site}/notifications?state=waiting&platform_id=`);
    assert.ok(list.html.includes(id) && list.html.includes('vid-&lt;b&gt;&amp;&quot;'));
    assert.ok(!list.html.includes('vid-good'));
    const one = await visitor.get(`${site}/notifications?platform_id=${encodeURIComponent('vid-<b>&"')}`);
    assert.equal([...one.html.matchAll(/<tr id="msg_/g)].length, 1);
    const page = (await visitor.get(`${site}/notifications/${id}`)).html;
    const sent = receiver.received.find(({ headers }) => headers['webhook-id'] === id);
    const shown = /<pre class="wrap" tabindex="0">([\s\S]*?)<\/pre>/.exec(page)?.[1] ?? '';
    const request = shown
      .replaceAll('&lt;', '<')
      .replaceAll('&gt;', '>')
      .replaceAll('&quot;', '"')
      .replaceAll('&amp;', '&');
    const [head = '', body] = request.split('\n\n');
    const [line, ...headers] = head.split('\n');
    assert.deepEqual([line, body], [`POST ${receiver.url}`, sent?.body]);
    const { connection: _, 'webhook-signature': signature, ...rest } = sent?.headers ?? {};
    const given = Object.fromEntries(headers.map((one) => one.split(/: (.*)/s).slice(0, 2)));
    assert.match(given['webhook-signature'], /^v1,… /);
    assert.deepEqual(
      { ...given, 'webhook-signature': signature },
      { ...rest, 'webhook-signature': signature },
    );
    const secret = (await scene.call('GET', '/push_notifications/signing_secret')).signing_secret;
    assert.ok(!page.includes(String(secret)) && !page.includes(customer.client_secret));
  });

  it('says under “Why did I get nothing?” the same as GET /assets/{platform_id}', async () => {
    const { visitor, site, harness, customer } = scene;
    const ask = async (asset: string) => (await visitor.get(`${site}/asset?platform_id=${asset}`)).html;
    assert.match(await ask('vid-good'), /You did get it: your endpoint answered 200/);
    assert.match(
      await ask('vid-bad'),
      /It is on its way: it is tried again at its own time. The last attempt came to 500/,
    );
    assert.match(await ask('vid-none'), /Nothing is known about the asset <code>vid-none<\/code>/);
    await harness.publish({ client: customer.client_token, asset: 'vid-quiet', notify: false });
    assert.match(await ask('vid-quiet'), /The last event notified nobody: the platform asked for silence/);
  });

  it('bounds a page of 10,000 notifications, and links to older ones', async () => {
    const { visitor, site, api, customer } = scene;
    const keys = api.deps.db.client(customer.client_token);
    for (let start = 0; start < 10_000; start += 1000) {
      const commands = api.deps.db.redis.pipeline();
      for (let i = start; i < start + 1000; i++) {
        const id = `msg_${String(i).padStart(22, 'A')}`;
        commands.hset(keys.notification(id), {
          asset: `old-${i}`,
          event: 'e',
          accepted_at: i + 1,
          state: 'delivered',
        });
        commands.zadd(keys.notifications, i + 1, id);
      }
      await commands.exec();
    }
    let path = `${site}/notifications?state=delivered`;
    for (let page = 0; page < 3; page++) {
      const { html } = await visitor.get(path);
      assert.equal([...html.matchAll(/<tr id="msg_/g)].length, 50);
      assert.ok(html.length < 60_000, String(html.length));
      path = (/href="([^"]+)" rel="next"/.exec(html)?.[1] ?? '').replaceAll('&amp;', '&');
    }
    const failed = await visitor.get(`${site}/notifications?state=failed`);
    assert.match(failed.html, /None among the newest; look further back/);
  });

  it('shows each receiver under examples/', async () => {
    const page = (await scene.visitor.get(`${scene.site}/verify`)).html;
    for (const { name, source } of allExamples) {
      const text = readFileSync(join(projectDir, 'examples', name, source), 'utf8');
      assert.ok(page.includes(html`${text}`.text), source);
    }
  });

  it('answers 404 for another account’s site and notification, as if they did not exist', async () => {
    const { visitor, site, api } = scene;
    const stranger = await newCustomer(api);
    const id = await scene.publish('vid-mine', 'waiting');
    const normal = (html: string) => html.replaceAll(/Request [\w-]+/g, '');
    const none = await visitor.get('/console/sites/NOBODY');
    assert.equal(none.status, 404);
    for (const page of [
      '',
      '/history',
      '/notifications',
      '/asset',
      '/actions',
      '/verify',
      `/notifications/${id}`,
    ]) {
      const theirs = await visitor.get(`/console/sites/${stranger.client_token}${page}`);
      assert.deepEqual([theirs.status, normal(theirs.html)], [404, normal(none.html)], page);
    }
    assert.equal((await visitor.get(`${site}/notifications/msg_AAAAAAAAAAAAAAAAAAAAAA`)).status, 404);
    assert.equal((await visitor.get(`${site}/notifications?state=odd`)).status, 400);
  });
});
