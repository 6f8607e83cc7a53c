import assert from 'node:assert/strict';
import { Webhook } from 'standardwebhooks';
import { listCalls } from '../../src/redis/records/audit.js';
import { forgetSends } from '../api/caller.js';
import { startReceiver, until } from '../receiver.js';
import { type Scene, startScene } from './scene.js';

describe('console: check and replay', () => {
  let scene: Scene;
  beforeEach(async () => {
    scene = await startScene();
  });
  afterEach(() => scene.close());

  const actions = async () => scene.visitor.get(`${scene.site}/actions`);
  const audited = async () => {
    const calls = await listCalls(scene.harness.db);
    return calls
      .filter((call) => call.tokenFingerprint.startsWith('console:') && call.what !== 'console opened')
      .map(({ what, about }) => [what, about]);
  };
  const freshLimit = () => forgetSends(scene.harness.db, scene.customer.client_token);
  const secret = async () =>
    String((await scene.call('GET', '/push_notifications/signing_secret')).signing_secret);

  it('shows after a check what the receiver does well, and what to change', async () => {
    const { visitor, site, receiver } = scene;
    await scene.register();
    const lax = await visitor.submit(await actions(), `${site}/check`);
    assert.equal(lax.status, 200);
    assert.match(lax.html, /notice bad[\s\S]*2 checks of 5 failed or need attention/);
    assert.match(
      lax.html,
      /<details open><summary><span class="badge fail">fail<\/span> A wrong signature: 200/,
    );
    assert.match(lax.html, /Verify webhook-signature with your secret/);
    assert.equal(receiver.received.length, 5);

    await freshLimit();
    const webhook = new Webhook(await secret());
    receiver.answer = ({ body, headers }) => {
      try {
        webhook.verify(body, headers as Record<string, string>);
        return 204;
      } catch {
        return 401;
      }
    };
    const good = await visitor.submit(await actions(), `${site}/check`);
    assert.match(good.html, /notice good[\s\S]*Your receiver passes every check/);
    assert.match(good.html, /A repeat of the first one: 204 after \d+ ms, then 204 after \d+ ms/);
    const about = { url: new URL(receiver.url).origin };
    assert.deepEqual(await audited(), [
      ['check', about],
      ['check', about],
    ]);
  });

  it('checks a given URL if none is registered, refuses what the API refuses, and hides the client’s own headers', async () => {
    const { visitor, site } = scene;
    await scene.call('PUT', '/push_notifications/headers', { headers: { 'X-Key': 'open-sesame' } });
    await freshLimit();
    const other = await startReceiver();
    const checked = await visitor.submit(await actions(), `${site}/check`, { url: other.url });
    assert.equal(other.received[0]?.headers['x-key'], 'open-sesame');
    assert.match(checked.html, /x-key: \*\*\*/);
    assert.ok(!checked.html.includes('open-sesame'));
    await other.close();
    const tooOften = await visitor.submit(await actions(), `${site}/check`, { url: other.url });
    assert.equal(tooOften.status, 429);
    const wrong = await visitor.submit(await actions(), `${site}/check`, { url: 'http://10.0.0.1/' });
    assert.match(wrong.html, /code url_not_public/);
  });

  it('counts before it replays, then sends as many again, once, even if the form is sent several times', async () => {
    const { visitor, site, receiver } = scene;
    await scene.register();
    for (const asset of ['a', 'b']) await scene.publish(asset, 'delivered');
    const counted = await visitor.submit(await actions(), `${site}/replay`, { hours: '6' });
    assert.match(counted.html, /2 assets would be sent again/);
    assert.deepEqual(await audited(), []);
    assert.equal(receiver.received.length, 2);
    const done = await visitor.submit(counted, `${site}/replay`);
    assert.match(done.html, /2 assets owed again/);
    await until('both are there again', () => receiver.received.length === 4);
    assert.equal(receiver.idsOf('a').length, 2);
    await until('nothing is owed', async () => (await scene.call('GET', '/push_notifications')).owed === 0);
    const again = await visitor.submit(counted, `${site}/replay`);
    assert.match(again.html, /0 assets owed again/);
    const [[what, about] = []] = await audited();
    assert.equal(what, 'notification replay');
    const { since, until: till } = about as { since: string; until: string };
    assert.equal(Math.round((Date.parse(till) - Date.parse(since)) / 60_000), 360);
    assert.equal((await visitor.submit(await actions(), `${site}/replay`, { hours: 'soon' })).status, 400);
  });
});
