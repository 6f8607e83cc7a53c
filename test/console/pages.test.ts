import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Webhook } from 'standardwebhooks';
import { forgetAsset } from '../../src/redis/notifications/decisions.js';
import { countAttempts } from '../../src/redis/records/attemptHistory.js';
import { listCalls } from '../../src/redis/records/audit.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { setNoticesUrl } from '../../src/redis/records/notices.js';
import { readSecrets, rotateSigningSecret } from '../../src/redis/records/secrets.js';
import { html } from '../../src/web/html.js';
import { plot } from '../../src/web/overview.js';
import { startReceiver, until } from '../receiver.js';
import { forSuite } from '../servers.js';
import { newCustomer } from '../service.js';
import { startScene } from './scene.js';
import { formTokenIn, signedIn } from './visitor.js';

describe('console: the pages of a site', () => {
  const scene = forSuite(() => startScene());
  before(async () => {
    await scene.register();
    scene.receiver.answer = () => 500;
  });

  it('names the client’s own request headers, without their values', async () => {
    const { visitor, site } = scene;
    assert.doesNotMatch((await visitor.get(site)).html, /Added headers/);
    const headers = { Authorization: 'Bearer open-sesame', 'X-Key': 'open-sesame' };
    await scene.call('PUT', '/push_notifications/headers', { headers });
    const { html } = await visitor.get(site);
    assert.match(
      html,
      /Added headers<\/dt><dd><code>authorization<\/code>, <code>x-key<\/code>, sent with each notification/,
    );
    assert.ok(!html.includes('open-sesame'));
    await scene.call('PUT', '/push_notifications/headers', { headers: {} });
  });

  it('names the addresses that notifications come from, if they are set', async () => {
    const { visitor, site, h } = scene;
    assert.doesNotMatch((await visitor.get(site)).html, /Sent from/);
    h.apiDeps.config.SOURCE_ADDRESSES = ['198.51.100.7', '2001:db8:5::/64'];
    const { html } = await visitor.get(site);
    h.apiDeps.config.SOURCE_ADDRESSES = [];
    assert.match(html, /Sent from<\/dt><dd>198\.51\.100\.7, 2001:db8:5::\/64/);
  });

  it('lists the notifications asked for, and shows the attempts and requests of each', async () => {
    const { visitor, site, receiver, customer } = scene;
    const id = await scene.publish('vid-<b>&"', 'waiting');
    const list = await visitor.get(`${site}/notifications?state=waiting&platform_id=`);
    assert.ok(list.html.includes(id) && list.html.includes('vid-&#60;b&#62;&#38;&#34;'));
    assert.ok(!list.html.includes('vid-good'));
    const one = await visitor.get(`${site}/notifications?platform_id=${encodeURIComponent('vid-<b>&"')}`);
    assert.equal([...one.html.matchAll(/<tr id="msg_/g)].length, 1);
    const page = (await visitor.get(`${site}/notifications/${id}`)).html;
    const sent = receiver.received.find(({ headers }) => headers['webhook-id'] === id);
    const shown = /<pre>([\s\S]*?)<\/pre>/.exec(page)?.[1] ?? '';
    const request = shown.replaceAll(/&#(\d+);/g, (_, code) => String.fromCharCode(code));
    const [head = '', body] = request.split('\n\n');
    const [line, ...headers] = head.split('\n');
    assert.deepEqual([line, body], [`POST ${new URL(receiver.url).origin}/…`, sent?.body]);
    const { connection: _, 'webhook-signature': __, ...rest } = sent?.headers ?? {};
    const given = Object.fromEntries(headers.map((one) => one.split(/: (.*)/s).slice(0, 2)));
    const { 'webhook-signature': signature, ...shownOnes } = given;
    assert.match(signature, /^v1,… /);
    assert.deepEqual(shownOnes, rest);
    const secret = (await scene.call('GET', '/push_notifications/signing_secret')).signing_secret;
    assert.ok(!page.includes(String(secret)) && !page.includes(customer.client_secret));
  });

  it('answers 404 for another account’s site and notification, as if they did not exist', async () => {
    const { visitor, site, h } = scene;
    const stranger = await newCustomer(h);
    const id = await scene.publish('vid-mine', 'waiting');
    const normal = (html: string) => html.replaceAll(/Request [\w-]+/g, '');
    const none = await visitor.get('/console/sites/NOBODY');
    assert.equal(none.status, 404);
    for (const page of ['', '/notifications', '/asset', '/actions', '/verify', `/notifications/${id}`]) {
      const theirs = await visitor.get(`/console/sites/${stranger.client_token}${page}`);
      assert.deepEqual([theirs.status, normal(theirs.html)], [404, normal(none.html)], page);
    }
    for (const page of [`${site}/notifications/msg_AAAAAAAAAAAAAAAAAAAAAA`, '/console/', '/console/no']) {
      const { status, html } = await visitor.get(page);
      assert.deepEqual([status, /<h1/.test(html)], [404, true], page);
    }
    assert.equal((await visitor.get(`${site}/notifications?state=odd`)).status, 400);
    // As a browser sends a whole minute.
    assert.equal((await visitor.get(`${site}/notifications?since=2026-01-31T10:00`)).status, 200);
  });

  it('explains an asset whose id ends in a blank, one whose last event brought nothing new, and one whose events are forgotten', async () => {
    const { visitor, site, h, customer } = scene;
    const client = customer.client_token;
    const explain = async (asset: string) =>
      (await visitor.get(`${site}/asset?${new URLSearchParams({ platform_id: asset })}`)).html;
    await h.publish({ client, asset: 'vid-blank ' });
    assert.match(await explain('vid-blank '), /It waits/);
    assert.match(
      (await visitor.get(`${site}/notifications?platform_id=vid-blank+`)).html,
      />vid-blank <\/a>/,
    );
    for (const segments of [['a'], ['a']]) await h.publish({ client, asset: 'vid-twice', segments });
    const twice = /notified nobody: the asset already had its segments\. Before that:.*It waits: /s;
    assert.match(await explain('vid-twice'), twice);
    await h.publish({ client, asset: 'vid-silent', notify: false });
    assert.match(await explain(' vid-silent '), /asked for silence/, 'pasted with blanks');
    await h.db.redis.del(h.db.client(client).decision('vid-silent'));
    assert.match(await explain('vid-silent'), /The decision about its last event is older than what is kept/);
  });
});

describe('console: the first line of a site', () => {
  const scene = forSuite(() => startScene());

  /** The text of the first notice, without its badge. */
  async function firstLine({ visitor, site } = scene): Promise<string> {
    const { html } = await visitor.get(site);
    const notice = /<div class="notice (?:good|warn|bad)">[\s\S]*?<\/div>/.exec(html)?.[0] ?? '';
    return notice
      .replace(/<span class="badge[\s\S]*?<\/span>/, '')
      .replaceAll('</p>', ' ')
      .replaceAll(/<[^>]*>/g, '')
      .trim();
  }
  const says = async (words: RegExp, of = scene) => assert.match(await firstLine(of), words);

  it('says what is wrong now, since when, what waits and what to do, in each state', async () => {
    const { h, receiver, customer } = scene;
    const client = customer.client_token;
    await says(/^No URL is registered, so nothing is sent\. Send a test to your receiver’s URL \(Actions\)/);
    await setPaused(h.db, client, true);
    await says(/^No URL is registered, so nothing is sent\. The next one is paused\. Send a test/);
    await setPaused(h.db, client, false);
    await scene.register();
    assert.equal(await firstLine(), 'Ready: nothing has been sent so far. No video waits.');
    assert.match((await scene.visitor.get(scene.site)).html, /<p>No attempt\.<\/p>/);

    await scene.publish('good', 'delivered');
    await says(/^Your server accepts our notifications, the last one \d+ s ago\. No video waits\.$/);
    receiver.answer = () => 404;
    await scene.publish('bad-1', 'waiting');
    await says(
      /^Your server answers 404\. Every attempt since (?:[-\d]+ )?\d\d:\d\d has failed\. 1 video waits\. The next attempt is in 1\d min\. Compare the path/,
    );
    for (const asset of ['bad-2', 'bad-3']) await scene.publish(asset, 'waiting');
    await says(
      /^Your server answers 404\. Every attempt since (?:[-\d]+ )?\d\d:\d\d has failed\. 3 videos wait\. We try one of them at least every 5 min, next in [56] min\. Compare the path.* When one is accepted, the others follow\. To try one of them now, press Resume \(Actions\)\.$/,
    );
    const list = await scene.visitor.get(`${scene.site}/notifications?state=waiting`);
    assert.equal([...list.html.matchAll(/when a probe succeeds \(next /g)].length, 3);

    receiver.answer = () => ({ status: 503, headers: { 'retry-after': '7200' } });
    await scene.call('POST', '/push_notifications/resume');
    await h.wake(client);
    const asked =
      /^Your server answers 503\. .* 3 videos wait\. It asked us to wait \(Retry-After\): we try one of them in 2 h\./;
    await until('it is told to wait', async () => asked.test(await firstLine()));
    const { body } = await customer.call('GET', '/notifications?state=waiting');
    assert.equal(JSON.stringify(body).match(/"waiting_reason":"not_before"/g)?.length, 3);

    await setPaused(h.db, client, true);
    await says(
      /^Nothing has been sent since (?:[-\d]+ )?\d\d:\d\d, because deliveries are paused\. 3 videos wait\. Ask your account manager/,
    );
    await setPaused(h.db, client, false);
    receiver.answer = () => 410;
    await scene.call('POST', '/push_notifications/resume');
    await h.wake(client);
    const suspended =
      /^Nothing has been sent since (?:[-\d]+ )?\d\d:\d\d, because your server answered 410\. 3 videos wait\. It says with 410 .* press Resume/;
    await until('it is suspended', async () => suspended.test(await firstLine()));
    // The last change of state then only says that the pause has ended.
    for (const isPaused of [true, false]) await setPaused(h.db, client, isPaused);
    await says(suspended);
  });

  for (const before of ['never accepted anything', 'has accepted something'])
    it(`says what failed last when nothing waits any more for a server that ${before}`, async () => {
      const own = await startScene();
      await own.register();
      if (before.startsWith('has')) await own.publish('good', 'delivered');
      own.receiver.answer = () => 404;
      await own.publish('gone', 'waiting');
      await forgetAsset(own.h.db, own.customer.client_token, 'gone');
      await says(
        /^Your server answers 404\. Every attempt since (?:[-\d]+ )?\d\d:\d\d has failed\. No video waits\. We try again with the next video\. Compare the path/,
        own,
      );
      for (const asset of ['last', 'only']) await own.publish(asset, 'waiting');
      await forgetAsset(own.h.db, own.customer.client_token, 'last');
      const one =
        /\. 1 video waits\. We try it at least every 5 min, .* To try it now, press Resume \(Actions\)\.$/;
      await says(one, own);
      await forgetAsset(own.h.db, own.customer.client_token, 'only');
      assert.doesNotMatch(await firstLine(own), /follow|Resume/);
    });

  it('says that a video waits for the end of the quiet period', async () => {
    const own = await startScene();
    await own.register();
    await own.call('PUT', '/push_notifications/quiet_period', { seconds: 1800 });
    await own.h.publish({ client: own.customer.client_token, asset: 'quiet' });
    await says(/^1 video waits\. The next attempt is in \d\d min, when its quiet period ends\.$/, own);
  });

  it('says that a video was refused while others are accepted', async () => {
    const own = await startScene();
    await own.register();
    own.receiver.answer = ({ body }) => (body.includes('odd') ? 422 : 200);
    await own.publish('odd', 'waiting');
    await own.publish('good', 'delivered');
    await says(/^1 video waits\. The next attempt is in \d+ min\. An earlier one has failed\.$/, own);
  });

  it('draws the only attempt of a day, and names who changed a state', async () => {
    const { h, visitor, site, customer } = scene;
    const history = countAttempts(h.db, h.apiDeps.log);
    history.count(customer.client_token, { ok: true }, 30);
    await history.close();
    const { html } = await visitor.get(site);
    assert.match(html, /<path class="tint-1" d="M\d+ 1000V\d+h1V1000z/);
    const none = [{ name: 'owed', tint: 1, values: [0] }];
    assert.match(plot('Owed', [], none).text, /Owed: .*<span>none<\/span>.*aria-label="Owed, none"/s);
    assert.match(html, /paused \(by your account manager\)/);
    assert.match(html, /registered \(by you\)/);
  });
});

describe('console: notices', () => {
  const scene = forSuite(() => startScene());

  it('says without a URL how to set one, and sends no test', async () => {
    const { visitor, h, customer } = scene;
    const page = await visitor.get('/console/notices');
    assert.match(page.html, /No URL is registered[\s\S]*PUT \/notices/);
    assert.doesNotMatch(page.html, /notices\/test/);
    const form_token = formTokenIn(page.html);
    assert.equal((await visitor.post('/console/notices/test', { form_token })).status, 404);
    assert.equal(await h.db.redis.exists(h.db.client(`notices:${customer.account_id}`).signingSecrets), 0);
  });

  it('links on the platform’s page to no site of another account', async () => {
    const { h, customer } = scene;
    const platform = await newCustomer(h, ['enrichments']);
    await setNoticesUrl(h.db, h.apiDeps.secretBox, platform.account_id, 'http://127.0.0.1:9/');
    await rotateSigningSecret(h.db, h.apiDeps.secretBox, customer.client_token);
    await h.deps.notices.claim(customer.client_token);
    const { html } = await (await signedIn(h, platform.token)).get('/console/notices');
    assert.match(html, new RegExp(`data-label="Site"[^>]*>${customer.client_token}</td>`));
  });

  it('shows the URL and the last notices, and sends a signed test that is in the audit', async () => {
    const { visitor, h, token, customer, receiver } = scene;
    const ops = await startReceiver();
    const client = `notices:${customer.account_id}`;
    await setNoticesUrl(h.db, h.apiDeps.secretBox, customer.account_id, ops.url);
    await scene.register();
    receiver.answer = () => 503;
    for (const asset of ['a', 'b', 'c']) await scene.publish(asset, 'waiting');
    await until('the notice is delivered', async () => ops.received.length === 1);
    await until('it is settled', async () =>
      (await visitor.get('/console/notices')).html.includes('badge delivered'),
    );
    const page = await visitor.get('/console/notices');
    assert.ok(page.html.includes(`<code>${ops.url}</code>`));
    assert.match(page.html, new RegExp(`endpoint.failing</code>[\\s\\S]*>${customer.client_token}</a>`));

    const sent = await visitor.submit(page, '/console/notices/test');
    assert.match(sent.html, /Your endpoint answered <strong>200<\/strong>/);
    const test = ops.received[1];
    assert.equal(test?.headers['webhook-client-token'], client);
    const { signing } = await readSecrets(h.db, h.apiDeps.secretBox, client);
    new Webhook(signing[0] ?? '').verify(test?.body ?? '', test?.headers as Record<string, string>);
    const audited = (await listCalls(h.db, [customer.account_id])).findLast(
      ({ what }) => what === 'registration test',
    );
    assert.deepEqual([audited?.clientToken, audited?.accountId], [client, customer.account_id]);

    ops.answer = () => ({ status: 503, headers: { date: new Date(0).toUTCString() } });
    const failed = await visitor.submit(page, '/console/notices/test');
    assert.match(failed.html, /<strong>answers 503<\/strong>.* gives times that are minutes or hours off/);

    const reader = await signedIn(h, token, '?access=read');
    const readOnly = (await reader.get('/console/notices')).html;
    assert.ok(readOnly.includes(`<code>${new URL(ops.url).origin}</code>`) && !readOnly.includes(ops.url));
    const form_token = formTokenIn(readOnly);
    assert.equal((await reader.post('/console/notices/test', { form_token })).status, 403);
    const stranger = await newCustomer(h);
    const theirs = await (await signedIn(h, stranger.token)).get('/console/notices');
    assert.ok(!theirs.html.includes(ops.url) && !theirs.html.includes(customer.client_token));
  });
});

it('console: HTML escapes every value in a template, and quotes every attribute', () => {
  const evil = `"><script>alert('1')</script>&`;
  assert.equal(
    html`<a title="${evil}">${[evil, html`<b>${1}</b>`, null, false]}</a>`.text,
    '<a title="&#34;&#62;&#60;script&#62;alert(&#39;1&#39;)&#60;/script&#62;&#38;">' +
      '&#34;&#62;&#60;script&#62;alert(&#39;1&#39;)&#60;/script&#62;&#38;<b>1</b></a>',
  );
  for (const folder of ['../../src/api/console', '../../src/web', '../../src/desk'])
    for (const file of readdirSync(join(import.meta.dirname, folder)).filter((name) =>
      name.endsWith('.ts'),
    )) {
      const source = readFileSync(join(import.meta.dirname, folder, file), 'utf8');
      for (const template of source.matchAll(/html`[\s\S]*?`/g))
        assert.doesNotMatch(template[0], /\s[\w-]+=\$\{/, file);
      assert.doesNotMatch(source, /<style|\sstyle="|<script>|\son[a-z]+="/, file);
    }
});
