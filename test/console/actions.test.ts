import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { listCalls } from '../../src/redis/records/audit.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { startReceiver, until, verifies } from '../receiver.js';
import { afterTest } from '../servers.js';
import { type ConsoleScene, startScene } from './scene.js';
import { formTokenIn, signedIn } from './visitor.js';

const forms = ['test', 'check', 'resume', 'recover', 'replay', 'signing_secret', 'signing_secret/rotate'];
const secretIn = (html: string) => /whsec_[A-Za-z0-9+/=]+/.exec(html)?.[0];

describe('console: actions', () => {
  let scene: ConsoleScene;
  beforeEach(async () => {
    scene = await startScene();
  });

  const actions = () => scene.visitor.get(`${scene.site}/actions`);
  const submit = async (action: string, fields?: Record<string, string>) =>
    scene.visitor.submit(await actions(), `${scene.site}/${action}`, fields);
  const audited = async () =>
    (await listCalls(scene.h.db, [scene.customer.account_id])).filter(
      ({ clientToken, tokenFingerprint }) =>
        clientToken === scene.customer.client_token && tokenFingerprint.startsWith('console:'),
    );
  const signingSecret = async () =>
    String((await scene.call('GET', '/push_notifications/signing_secret')).signing_secret);

  it('sends a test to the registered URL, or before there is one to another, and shows the request', async () => {
    const { visitor, receiver } = scene;
    const other = await startReceiver();
    const before = await submit('test', { url: other.url });
    assert.match(before.html, /Your endpoint answered <strong>200<\/strong>/);
    assert.equal(other.received.length, 1);
    other.answer = () => 410;
    assert.match((await submit('test', { url: other.url })).html, /A notification would suspend this/);
    await other.close();
    const closed = await submit('test', { url: other.url });
    assert.match(closed.html, /Your endpoint <strong>refuses connections<.* Start the server;/);
    const wrong = await submit('test', { url: 'https://user:pw@example.com/' });
    assert.equal(wrong.status, 400);
    assert.match(wrong.html, /role="alert"[\s\S]*code url_credentials/);
    await scene.register();
    const after = await submit('test');
    assert.equal(after.status, 200);
    const [received] = receiver.received;
    assert.ok(after.html.includes(String(received?.headers['webhook-signature'])));
    const [first] = await audited();
    const { what, address, tokenFingerprint } = first ?? {};
    const fingerprint = `console:${hash('sha256', visitor.secret).slice(0, 12)}`;
    assert.deepEqual([what, address, tokenFingerprint], ['registration test', '127.0.0.1', fingerprint]);
  });

  it('shows after a check what the receiver does well, and what to change', async () => {
    const { receiver, customer } = scene;
    await scene.register();
    const lax = await submit('check');
    assert.equal(lax.status, 200);
    assert.match(lax.html, /notice bad[\s\S]*2 checks of 5 failed or need attention/);
    const fail = '<details open><summary><span class="badge fail">fail</span> A wrong signature: 200';
    assert.ok(lax.html.includes(fail));
    assert.match(lax.html, /Verify webhook-signature with your secret/);
    assert.equal(receiver.received.length, 5);

    await customer.forgetSends();
    receiver.answer = verifies(await signingSecret());
    const good = await submit('check');
    assert.match(good.html, /notice good[\s\S]*Your receiver passes every check/);
    assert.match(good.html, /A repeat of the first one: 204 after \d+ ms, then 204 after \d+ ms/);
    const about = { url: new URL(receiver.url).origin };
    const calls = (await audited()).map((call) => [call.what, call.about]);
    assert.deepEqual(calls, Array(2).fill(['registration check', about]));
  });

  it('checks a given URL if none is registered, refuses what the API refuses, and hides the client’s own headers', async () => {
    await scene.call('PUT', '/push_notifications/headers', { headers: { 'X-Key': 'open-sesame' } });
    await scene.customer.forgetSends();
    const checked = await submit('check', { url: scene.receiver.url });
    assert.equal(scene.receiver.received[0]?.headers['x-key'], 'open-sesame');
    assert.match(checked.html, /x-key: \*\*\*/);
    assert.ok(!checked.html.includes('open-sesame'));
    assert.equal((await submit('check', { url: scene.receiver.url })).status, 429);
    assert.match((await submit('check', { url: 'http://10.0.0.1/' })).html, /code url_not_public/);
  });

  it('counts before it replays, then sends as many again, once, even if the form is sent several times', async () => {
    const { visitor, site, receiver, h } = scene;
    // Redis' clock is ahead of this process'.
    Object.assign(h.db, { callersNow: () => Date.now() - 60_000 });
    afterTest(() => Object.assign(h.db, { callersNow: undefined }));
    await scene.register();
    for (const asset of ['a', 'b']) await scene.publish(asset, 'delivered');
    const counted = await submit('replay', { hours: '6' });
    assert.match(counted.html, /2 assets would be sent again/);
    assert.deepEqual(await audited(), []);
    assert.equal(receiver.received.length, 2);
    const done = await visitor.submit(counted, `${site}/replay`);
    assert.match(done.html, /2 assets owed again/);
    await until('nothing is owed', async () => (await scene.call('GET', '/push_notifications')).owed === 0);
    assert.deepEqual([receiver.idsOf('a').length, receiver.idsOf('b').length], [2, 2]);
    assert.match((await visitor.submit(counted, `${site}/replay`)).html, /0 assets owed again/);
    assert.match((await submit('recover', { hours: '6' })).html, /No notification failed in that time/);
    const [call] = await audited();
    assert.equal(call?.what, 'notification replay');
    const { since = '', until: till = '' } = (call?.about ?? {}) as Record<string, string>;
    assert.equal(Math.round((Date.parse(till) - Date.parse(since)) / 60_000), 360);
    assert.equal((await submit('replay', { hours: 'soon' })).status, 400);
  });

  it('says first that assets failed, lets go no more than it counted, and recovers the others by a button', async () => {
    const { visitor, site, h } = scene;
    const { client_token } = scene.customer;
    await scene.register();
    await setPaused(h.db, client_token, true);
    const failed = async () => (await scene.call('GET', '/push_notifications')).failed;
    const fail = async (asset: string, count: number) => {
      await h.publish({ client: client_token, asset });
      // As if it had been owed for 31 days.
      await h.db.redis.zadd(h.db.client(client_token).owedSince, 1, asset);
      await h.wake(client_token);
      await until('it failed', async () => (await failed()) === count);
    };
    await fail('unwanted', 1);
    const counted = await submit('dismiss', { hours: '1', reason: 'an import' });
    await fail('a', 2);
    assert.match((await visitor.submit(counted, `${site}/dismiss`)).html, /1 notification dismissed/);
    assert.equal(await failed(), 1);
    const page = await visitor.get(site);
    assert.match(page.html, /1 video has .*failed.* since/);
    assert.match(
      (await visitor.get('/console')).html,
      /data-label="Failed"[^>]*><a [^>]*>1</,
      'in the list of sites',
    );
    const done = await visitor.submit(page, `${site}/recover`);
    assert.match(done.html, /1 notification owed again; not sent now: deliveries are paused/);
    await setPaused(h.db, client_token, false);
    await h.wake(client_token);
    await until('it was sent', () => scene.receiver.idsOf('a').length === 1);
    assert.doesNotMatch((await visitor.get(site)).html, /no further attempt is made/);
  });

  it('sends a notification again, or says that another of its video is owed', async () => {
    const { visitor, site, h } = scene;
    const { client_token } = scene.customer;
    await scene.register();
    const first = await h.publish({ client: client_token, asset: 'a', segments: ['x'] });
    await h.delivered(client_token, first.id);
    const page = await visitor.get(`${site}/notifications/${first.id}`);
    const again = `${site}/notifications/${first.id}/redeliver`;
    const sent = await visitor.submit(page, again);
    assert.match(
      sent.html,
      new RegExp(`<p>It is due now, with the <code>webhook-id</code> <code>${first.id}<`),
    );
    await until('it was sent', () => scene.receiver.idsOf('a').length === 2);
    await setPaused(h.db, client_token, true);
    const { id } = await h.publish({ client: client_token, asset: 'a', segments: ['y'] });
    const other = await visitor.submit(page, again);
    assert.match(other.html, /<p>Another of its video that was owed or had failed is owed: /);
    assert.ok(other.html.includes(`<code>${id}</code>`));
  });

  it('shows and rotates the signing secret, shows the overlap, and records both in the audit', async () => {
    const shown = await submit('signing_secret');
    assert.equal(secretIn(shown.html), await signingSecret());
    const rotated = await submit('signing_secret/rotate');
    assert.equal(secretIn(rotated.html), await signingSecret());
    assert.notEqual(secretIn(rotated.html), secretIn(shown.html));
    assert.match(rotated.html, /The old one remains valid until/);
    const page = (await actions()).html;
    assert.match(page, /1 earlier secret remains valid beside the newest[\s\S]*2 signatures/);
    assert.equal(secretIn(page), undefined);
    const calls = (await audited()).map(({ what }) => what);
    assert.deepEqual(calls, ['signing secret read', 'secrets rotate']);
  });

  it('answers 403 to a form without the session’s token or from another site, and does nothing', async () => {
    const { visitor, site, receiver, h, token } = scene;
    await scene.register();
    const form_token = formTokenIn((await actions()).html);
    const foreign = formTokenIn((await (await signedIn(h, token)).get(`${site}/actions`)).html);
    for (const [fields, headers] of [
      [{}, {}],
      [{ form_token: 'wrong' }, {}],
      // As many characters, and more bytes.
      [{ form_token: 'ü'.repeat(form_token.length) }, {}],
      [{ form_token: foreign }, {}],
      [{ form_token }, { origin: 'https://evil.example' }],
      [{ form_token }, { origin: 'null' }],
      [{ form_token }, { 'sec-fetch-site': 'same-site' }],
    ] as [Record<string, string>, Record<string, string>][]) {
      for (const path of [...forms.map((action) => `${site}/${action}`), '/console/notices/test'])
        assert.equal((await visitor.post(path, fields, headers)).status, 403);
    }
    assert.deepEqual([receiver.received, await audited()], [[], []]);
    assert.equal((await visitor.post(`${site}/test`, { form_token })).status, 200);
  });

  it('shows every page to a read-only session, and refuses its forms', async () => {
    const { site, h, token, receiver } = scene;
    await scene.register();
    const id = await scene.publish('vid', 'delivered');
    const reader = await signedIn(h, token, '?access=read');
    const asset = '/asset?platform_id=vid';
    for (const path of ['', '/notifications', `/notifications/${id}`, asset, '/actions', '/verify']) {
      const page = await reader.get(site + path);
      assert.equal(page.status, 200, path);
      const to = [...page.html.matchAll(/<form method="post" action="([^"]+)"/g)].map(([, action]) => action);
      assert.deepEqual(to, ['/console/sign_out'], path);
    }
    // Its own token is in the form that signs out.
    const form_token = formTokenIn((await reader.get(site)).html);
    const sent = receiver.received.length;
    for (const action of [...forms, `notifications/${id}/redeliver`]) {
      const refused = await reader.post(`${site}/${action}`, { form_token, hours: '6', dry_run: 'true' });
      assert.deepEqual([refused.status, /This session may look/.test(refused.html)], [403, true], action);
    }
    assert.equal(receiver.received.length, sent);
    assert.deepEqual(await audited(), []);
  });
});
