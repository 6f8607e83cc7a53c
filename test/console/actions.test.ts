import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { listCalls } from '../../src/redis/records/audit.js';
import { startReceiver, until } from '../receiver.js';
import { type Scene, startScene } from './scene.js';
import { signedIn } from './visitor.js';

describe('console: actions', () => {
  let scene: Scene;
  beforeEach(async () => {
    scene = await startScene();
  });
  afterEach(() => scene.close());

  const actions = async () => scene.visitor.get(`${scene.site}/actions`);
  const audited = async () =>
    (await listCalls(scene.harness.db)).filter(
      ({ clientToken, tokenFingerprint }) =>
        clientToken === scene.customer.client_token && tokenFingerprint.startsWith('console:'),
    );
  const fingerprint = () =>
    `console:${createHash('sha256')
      .update(scene.visitor.cookie.split('=')[1] ?? '')
      .digest('hex')
      .slice(0, 12)}`;

  it('sends a test to the registered URL, or before there is one to another, and shows the request', async () => {
    const { visitor, site, receiver } = scene;
    const other = await startReceiver();
    const before = await visitor.submit(await actions(), `${site}/test`, { url: other.url });
    assert.match(before.html, /Your endpoint answered <strong>200<\/strong>/);
    assert.equal(other.received.length, 1);
    await other.close();
    const wrong = await visitor.submit(await actions(), `${site}/test`, {
      url: 'https://user:pw@example.com/',
    });
    assert.equal(wrong.status, 400);
    assert.match(wrong.html, /role="alert"[\s\S]*code url_credentials/);
    await scene.register();
    const after = await visitor.submit(await actions(), `${site}/test`);
    assert.equal(after.status, 200);
    const [received] = receiver.received;
    assert.ok(after.html.includes(String(received?.headers['webhook-signature'])));
    const [first] = await audited();
    const { what, address, tokenFingerprint } = first ?? {};
    assert.deepEqual([what, address, tokenFingerprint], ['test', '127.0.0.1', fingerprint()]);
  });

  it('counts before it recovers, and then sends as many', async () => {
    const { visitor, site, receiver, harness, customer } = scene;
    await scene.register();
    receiver.answer = () => 500;
    const id = await scene.publish('lost', 'waiting');
    const keys = harness.db.client(customer.client_token);
    // As the end of its window leaves it.
    await harness.db.redis.hset(
      keys.notification(id),
      'state',
      'failed',
      'ended_at',
      Date.now(),
      'reason',
      'window',
    );
    for (const key of [keys.owed, keys.owedSince, keys.dueLive]) {
      if (key === keys.owed) await harness.db.redis.hdel(key, 'lost');
      else await harness.db.redis.zrem(key, 'lost');
    }
    receiver.answer = () => 200;
    const counted = await visitor.submit(await actions(), `${site}/recover`, { hours: '6' });
    assert.match(counted.html, /1 notification would be sent/);
    assert.deepEqual(await audited(), []);
    const done = await visitor.submit(counted, `${site}/recover`);
    assert.match(done.html, /1 notification owed again/);
    await until('it is delivered', async () => receiver.idsOf('lost').length === 2);
    assert.deepEqual(
      (await audited()).map(({ what }) => what),
      ['notification recover'],
    );
    const odd = await visitor.submit(await actions(), `${site}/recover`, { hours: 'soon' });
    assert.equal(odd.status, 400);
  });

  it('shows and rotates the signing secret, shows the overlap, and records both in the audit', async () => {
    const { visitor, site } = scene;
    const secretIn = (html: string) => /whsec_[A-Za-z0-9+/=]+/.exec(html)?.[0];
    const shown = await visitor.submit(await actions(), `${site}/signing_secret`);
    assert.equal(
      secretIn(shown.html),
      (await scene.call('GET', '/push_notifications/signing_secret')).signing_secret,
    );
    const rotated = await visitor.submit(await actions(), `${site}/signing_secret/rotate`);
    assert.equal(
      secretIn(rotated.html),
      (await scene.call('GET', '/push_notifications/signing_secret')).signing_secret,
    );
    assert.notEqual(secretIn(rotated.html), secretIn(shown.html));
    assert.match(rotated.html, /The one until now signs along until/);
    const page = (await actions()).html;
    assert.match(page, /1 earlier secret signs along with the newest[\s\S]*2 signatures/);
    assert.equal(secretIn(page), undefined);
    assert.deepEqual(
      (await audited()).map(({ what }) => what),
      ['signing secret read', 'signing secret rotate'],
    );
  });

  it('answers 403 to a form without the session’s token or from another site, and does nothing', async () => {
    const { visitor, site, receiver, api, token } = scene;
    await scene.register();
    const tokenIn = (html: string) => /name="form_token" value="([^"]+)"/.exec(html)?.[1] ?? '';
    const form_token = tokenIn((await actions()).html);
    const other = await signedIn(api, token);
    const foreign = tokenIn((await other.get(`${site}/actions`)).html);
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
      for (const action of [
        ...['test', 'check', 'resume', 'recover', 'replay', 'signing_secret', 'signing_secret/rotate'],
      ]) {
        assert.equal((await visitor.post(`${site}/${action}`, fields, headers)).status, 403);
      }
      assert.equal((await visitor.post('/console/notices/test', fields, headers)).status, 403);
    }
    assert.deepEqual([receiver.received, await audited()], [[], []]);
    assert.equal((await visitor.post(`${site}/test`, { form_token })).status, 200);
  });

  it('shows every page to a read-only session, and refuses its forms', async () => {
    const { site, api, token, receiver } = scene;
    await scene.register();
    const id = await scene.publish('vid', 'delivered');
    const reader = await signedIn(api, token, '?access=read');
    for (const path of [
      '',
      '/notifications',
      `/notifications/${id}`,
      '/asset?platform_id=vid',
      '/actions',
      '/verify',
    ]) {
      const page = await reader.get(site + path);
      assert.equal(page.status, 200, path);
      const forms = [...page.html.matchAll(/<form method="post" action="([^"]+)"/g)].map(
        ([, action]) => action,
      );
      assert.deepEqual(forms, ['/console/sign_out'], path);
    }
    // Its own token is in the form that signs out.
    const form_token = /name="form_token" value="([^"]+)"/.exec((await reader.get(site)).html)?.[1] ?? '';
    const sent = receiver.received.length;
    for (const action of [
      'test',
      'check',
      'resume',
      'recover',
      'replay',
      'signing_secret',
      'signing_secret/rotate',
      `notifications/${id}/redeliver`,
    ]) {
      const refused = await reader.post(`${site}/${action}`, { form_token, hours: '6', dry_run: 'true' });
      assert.deepEqual([refused.status, /This session may look/.test(refused.html)], [403, true], action);
    }
    assert.equal(receiver.received.length, sent);
    assert.deepEqual(await audited(), []);
  });

  it('gives a session the scope signing_secrets only if its token has it', async () => {
    await scene.close();
    scene = await startScene(['push_notifications', 'signing_secrets']);
    const { api, customer, site } = scene;
    const answer = await fetch(`${api.url}/oauth/access_token`, {
      method: 'POST',
      body: new URLSearchParams({
        grant_type: 'none',
        scope: 'push_notifications',
        client_id: customer.client_id,
        client_secret: customer.client_secret,
      }),
    });
    const { access_token: lesser } = (await answer.json()) as { access_token: string };
    for (const [token, status] of [
      [lesser, 403],
      [scene.token, 200],
    ] as const) {
      const visitor = await signedIn(api, token);
      for (const action of ['signing_secret', 'signing_secret/rotate']) {
        const page = await visitor.submit(await visitor.get(`${site}/actions`), `${site}/${action}`);
        assert.deepEqual([page.status, /whsec_/.test(page.html)], [status, status === 200]);
      }
    }
  });
});
