import assert from 'node:assert/strict';
import { toldAccount, toldPlatform } from '../../src/redis/connection/keys.js';
import { setDisabled } from '../../src/redis/records/accounts.js';
import { deleteClient } from '../../src/redis/records/clients.js';
import { getEndpoint } from '../../src/redis/records/endpoint.js';
import { getNoticesUrl, removeNoticesUrl, setNoticesUrl } from '../../src/redis/records/notices.js';
import { type NoticeKind, owedNotices } from '../../src/redis/records/owedNotices.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { newSigningSecret, rotateSigningSecret } from '../../src/redis/records/signingSecrets.js';
import { type Harness, type Receiver, startHarness, startReceiver, until } from '../delivery/harness.js';
import { decodedPayloads } from '../e2e/decodedPayloads.js';
import { allHandedOver, receivedOf, type Scene, type Site, startScene, toldOf } from './scene.js';

const hourMs = 3_600_000;
const box = createSecretBox(undefined);

describe('Notices', () => {
  let h: Harness;
  let scene: Scene;
  let platform: Receiver;
  const platformSecret = newSigningSecret();
  const ended: string[] = [];

  before(async () => {
    platform = await startReceiver();
    h = await startHarness(
      {
        FAILING_AFTER: '2',
        RETRY_SCHEDULE_SECONDS: '0.1',
        PROBE_SCHEDULE_SECONDS: '0.2',
        NOTICES_URL: platform.url,
        NOTICES_SIGNING_SECRET: `${platformSecret},${newSigningSecret()}`,
      },
      'all',
      { metrics: { noticeEnded: (kind, result) => ended.push(`${kind} ${result}`) } },
    );
    // Far from the end of an hour: what belongs to one must not fall into two.
    h.skip(hourMs - (Date.now() % hourMs) + hourMs / 6);
    await h.startWorker();
    scene = await startScene(h);
  });
  after(async () => {
    await h.close();
    await scene.close();
    await platform.close();
  });
  beforeEach(() => {
    scene.told.answer = () => 200;
  });

  const hour = () => new Date(Date.now() + h.db.clockOffsetMs()).toISOString().slice(0, 13);
  const workflowOf = ({ client }: Site, kind: NoticeKind, to: 'account' | 'platform' = 'account') =>
    h.temporal.workflow.getHandle(h.ids.notice(client, kind, hour(), to));
  const stateIs = (client: string, state: string) =>
    until(`it is ${state}`, async () => (await getEndpoint(h.db, client)).state === state);

  it('sends the account a signed notice with counts when an endpoint fails, and when it recovers', async () => {
    const site = await scene.newSite();
    await scene.fail(site);
    const [failing] = await toldOf(scene.told, site.client, 'endpoint.failing', site.secret);
    assert.ok(failing);
    const { at, since, ...said } = failing;
    assert.deepEqual(said, {
      event: 'endpoint.failing',
      account_id: site.accountId,
      client_token: site.client,
      reason: '2 attempts failed in a row',
      attempts_failed: 2,
      owed: 3,
    });
    assert.ok(Date.parse(since) <= Date.parse(at));

    scene.down.delete(site.client);
    const [recovered] = await toldOf(scene.told, site.client, 'endpoint.recovered', site.secret);
    assert.ok(recovered);
    assert.equal(recovered.reason, 'a probe succeeded');
    assert.ok(recovered.attempts_failed >= 2);
    assert.equal(recovered.since, since, 'since when it has taken nothing');
    assert.ok(Date.parse(recovered.at) > Date.parse(at));
    const ids = receivedOf(scene.told, site.client).map(({ headers }) => headers['webhook-id']);
    assert.equal(new Set(ids).size, 2, 'each has an id of its own');
  });

  it('sends the platform the same notice to NOTICES_URL, with its own secret and another id', async () => {
    const site = await scene.newSite();
    await scene.fail(site);
    const [account] = await toldOf(scene.told, site.client, 'endpoint.failing', site.secret);
    const [its] = await toldOf(platform, site.client, 'endpoint.failing', platformSecret);
    assert.deepEqual(its, account);
    const [[one], [other]] = [receivedOf(scene.told, site.client), receivedOf(platform, site.client)];
    assert.notEqual(one?.headers['webhook-id'], other?.headers['webhook-id']);
    assert.equal(
      String(other?.headers['webhook-signature']).split(' ').length,
      2,
      'the older secret signs along',
    );
  });

  it('shows the change and the result in the workflow, without a URL or a secret', async () => {
    const site = await scene.newSite();
    await scene.fail(site);
    await toldOf(scene.told, site.client, 'endpoint.failing', site.secret);
    const handle = workflowOf(site, 'endpoint.failing');
    const { state, status, tries } = (await handle.result()) as Record<string, unknown>;
    assert.deepEqual([state, status, tries], ['delivered', 200, 1]);
    const { memo = {}, searchAttributes, staticSummary } = await handle.describe();
    const what = `Notice: endpoint.failing of ${site.client}, to its account`;
    assert.equal(await staticSummary(), what);
    assert.equal(memo.what, what);
    assert.equal(memo.why, '2 attempts failed in a row');
    assert.deepEqual([memo.attempts_failed, memo.owed, memo.tries], [2, 3, 1]);
    assert.equal(memo.state, 'delivered: answered 2xx');
    assert.deepEqual(searchAttributes.ClientToken, [site.client]);
    assert.deepEqual(searchAttributes.HttpStatus, [200]);
    const history = decodedPayloads(await handle.fetchHistory()).join('\n');
    assert.ok(history.includes(site.client), 'the payloads are decoded');
    for (const hidden of ['hush', scene.told.url, site.secret]) assert.ok(!history.includes(hidden), hidden);
  });

  it('sends one notice of a kind for each client and hour, and the next one in the next hour if it still holds', async () => {
    const [site, other] = [await scene.newSite(), await scene.newSite()];
    await scene.fail(site);
    await toldOf(scene.told, site.client, 'endpoint.failing', site.secret);
    scene.down.delete(site.client);
    await toldOf(scene.told, site.client, 'endpoint.recovered', site.secret);
    await allHandedOver(h, site.client);

    await scene.fail(site);
    await stateIs(site.client, 'failing');
    await until('it is put off', async () => {
      const { notices } = await owedNotices(h.db, site.client);
      return notices[0]?.notBefore;
    });
    await h.sweep();
    await scene.fail(other);
    await toldOf(scene.told, other.client, 'endpoint.failing', other.secret);
    assert.equal(receivedOf(scene.told, site.client, 'endpoint.failing').length, 1);
    assert.equal(receivedOf(platform, site.client, 'endpoint.failing').length, 1);

    h.skip(hourMs);
    await h.sweep();
    await toldOf(scene.told, site.client, 'endpoint.failing', site.secret, 2);
    await toldOf(platform, site.client, 'endpoint.failing', platformSecret, 2);
    const ids = receivedOf(scene.told, site.client, 'endpoint.failing').map((r) => r.headers['webhook-id']);
    assert.equal(new Set(ids).size, 2);
    await allHandedOver(h, site.client);
  });

  it('drops a postponed notice that no longer holds', async () => {
    const site = await scene.newSite();
    for (const times of [1, 2]) {
      await scene.fail(site);
      await stateIs(site.client, 'failing');
      if (times === 1) await toldOf(scene.told, site.client, 'endpoint.failing', site.secret);
      scene.down.delete(site.client);
      await stateIs(site.client, 'active');
      if (times === 1) await toldOf(scene.told, site.client, 'endpoint.recovered', site.secret);
    }
    const { notices } = await owedNotices(h.db, site.client);
    assert.deepEqual(
      notices.map(({ kind }) => kind),
      ['endpoint.recovered'],
      'the newest change has taken the place of the one before',
    );
  });

  it('retries after a 503 with the same id and body until the receiver accepts the notice', async () => {
    const site = await scene.newSite();
    const mine = () => receivedOf(scene.told, site.client, 'endpoint.failing');
    scene.told.answer = () => (mine().length < 3 ? 503 : 200);
    await scene.fail(site);
    await until('it was sent three times', () => mine().length === 3);
    const handle = workflowOf(site, 'endpoint.failing');
    const result = (await handle.result()) as Record<string, unknown>;
    assert.deepEqual([result.state, result.status], ['delivered', 200]);
    await toldOf(scene.told, site.client, 'endpoint.failing', site.secret, 3);
    assert.equal(new Set(mine().map(({ headers }) => headers['webhook-id'])).size, 1);
    assert.equal(new Set(mine().map(({ body }) => body)).size, 1);
    const url = await getNoticesUrl(h.db, site.accountId);
    assert.equal(url?.lastError, 'http_status');
    assert.ok(Number(url?.lastSuccessAtMs) >= Number(url?.lastFailureAtMs));
    assert.ok(ended.includes('endpoint.failing delivered'));
  });

  it('ends the notice as failed after a 410', async () => {
    const site = await scene.newSite();
    scene.told.answer = () => 410;
    await scene.fail(site);
    const handle = await until('it has a workflow', async () => {
      const handle = workflowOf(site, 'endpoint.failing');
      return (await handle.describe().catch(() => undefined)) && handle;
    });
    assert.deepEqual(await handle.result(), {
      ...{ state: 'failed', why: 'its receiver is gone (410)', status: 410, tries: 1 },
    });
    assert.ok(ended.includes('endpoint.failing failed'));
  });

  it('sends endpoint.suspended when an endpoint answers 410', async () => {
    const site = await scene.newSite();
    scene.down.set(site.client, 410);
    await h.publish({ client: site.client, asset: 'vid-1' });
    const [suspended] = await toldOf(scene.told, site.client, 'endpoint.suspended', site.secret);
    assert.deepEqual(
      [suspended?.reason, suspended?.attempts_failed, suspended?.owed],
      ['it answered 410', 1, 1],
    );
    assert.equal(receivedOf(scene.told, site.client).length, 1);
  });

  it('hands over in the sweep the notice of a process that ends right after rotating a secret', async () => {
    const site = await scene.newSite();
    await rotateSigningSecret(h.db, box, site.client);
    assert.equal((await owedNotices(h.db, site.client)).notices.length, 1);
    await h.sweep();
    const [rotated] = await toldOf(scene.told, site.client, 'secret.rotated', site.secret);
    assert.ok(rotated);
    assert.equal(rotated.reason, 'the signing secret was rotated');
    assert.deepEqual([rotated.attempts_failed, rotated.owed], [0, 0]);
    assert.equal(rotated.since, rotated.at);
    await allHandedOver(h, site.client);
    await rotateSigningSecret(h.db, box, toldAccount(site.accountId));
    assert.equal(await h.db.redis.exists(h.db.client(toldAccount(site.accountId)).endpoint), 0);
  });

  it('starts one workflow for a notice that is handed over twice, as after a crash', async () => {
    const site = await scene.newSite();
    await rotateSigningSecret(h.db, box, site.client);
    const { endpoint } = h.db.client(site.client);
    const stored = String(await h.db.redis.hget(endpoint, 'secret_notice'));
    await h.deps.notices.handOver(site.client);
    await h.db.redis.hset(endpoint, 'secret_notice', stored);
    await h.deps.notices.handOver(site.client);
    assert.equal((await owedNotices(h.db, site.client)).notices.length, 0);
    await workflowOf(site, 'secret.rotated').result();
    assert.equal(receivedOf(scene.told, site.client).length, 1);
  });

  describe('ends as cancelled without a recipient', () => {
    const cases: [string, (site: Site) => Promise<unknown>, string][] = [
      [
        'the URL is removed',
        ({ accountId }) => removeNoticesUrl(h.db, accountId),
        'the account has no notices URL any more',
      ],
      ['the client is deleted', ({ client }) => deleteClient(h.db, client), 'its client was deleted'],
      [
        'the account is gone',
        ({ accountId }) => h.db.redis.del(h.db.global.account(accountId)),
        'its account was deleted',
      ],
      [
        'the account is disabled',
        ({ accountId }) => setDisabled(h.db, accountId, true),
        'its account is disabled',
      ],
    ];
    for (const [name, leave, why] of cases) {
      it(name, async () => {
        const site = await scene.newSite();
        scene.told.answer = () => 500;
        await rotateSigningSecret(h.db, box, site.client);
        await h.deps.notices.handOver(site.client);
        await until('it was tried', () => receivedOf(scene.told, site.client).length > 0);
        await leave(site);
        const result = (await workflowOf(site, 'secret.rotated').result()) as Record<string, unknown>;
        assert.deepEqual([result.state, result.why], ['cancelled', why]);
        assert.ok(ended.includes('secret.rotated cancelled'));
      });
    }
  });

  it('sends to the new URL, with the same secret, a notice that the previous URL did not accept', async () => {
    const site = await scene.newSite();
    const elsewhere = await startReceiver();
    try {
      scene.told.answer = () => 500;
      await rotateSigningSecret(h.db, box, site.client);
      await h.deps.notices.handOver(site.client);
      await until('it was tried', () => receivedOf(scene.told, site.client).length > 0);
      await setNoticesUrl(h.db, box, site.accountId, elsewhere.url);
      await toldOf(elsewhere, site.client, 'secret.rotated', site.secret);
      assert.equal((await getNoticesUrl(h.db, site.accountId))?.lastError, undefined);
    } finally {
      await elsewhere.close();
    }
  });

  it('keeps the results of the platform’s receiver without its URL', async () => {
    const { notices } = h.db.client(toldPlatform);
    const kept = await h.db.redis.hgetall(notices);
    assert.ok(Number(kept.last_success_at) > 0);
    assert.equal(kept.url, undefined);
  });
});
