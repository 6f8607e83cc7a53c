import assert from 'node:assert/strict';
import { newCustomer } from '../service.js';
import { type Scene, startScene } from './scene.js';
import { signedIn } from './visitor.js';

describe('console: the pages of a site', () => {
  let scene: Scene;
  before(async () => {
    scene = await startScene();
    await scene.register();
    scene.receiver.answer = () => 500;
  });
  after(() => scene.close());

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

  it('shows the whole URL to a full session, and its scheme and host to one that may only look', async () => {
    const { visitor, site, receiver, api, token } = scene;
    assert.ok((await visitor.get(site)).html.includes(`<code>${receiver.url}</code>`));
    const reader = await signedIn(api, token, '?access=read');
    const { html } = await reader.get(site);
    assert.ok(html.includes(`<code>${new URL(receiver.url).origin}</code>`));
    assert.ok(!html.includes(receiver.url));
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
    assert.deepEqual([line, body], [`POST ${new URL(receiver.url).origin}/…`, sent?.body]);
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
