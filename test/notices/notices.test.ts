import assert from 'node:assert/strict';
import { assetSlot, noticesClient } from '../../src/ids.js';
import { createNotices } from '../../src/notices/notices.js';
import type { Db } from '../../src/redis/connection/db.js';
import { listNotifications } from '../../src/redis/notifications/notificationPages.js';
import { createAccount, setScopes, setStopped } from '../../src/redis/records/accounts.js';
import { deleteClient, removeNoticesUrl } from '../../src/redis/records/deletion.js';
import { getEndpoint } from '../../src/redis/records/endpoint.js';
import { dropNotice, type Notice, setNoticesUrl, unclaimedNotices } from '../../src/redis/records/notices.js';
import { getRegistration } from '../../src/redis/records/registrations.js';
import { createSigningSecret, readSecrets, rotateSigningSecret } from '../../src/redis/records/secrets.js';
import { runSweep } from '../../src/upkeep/sweep.js';
import { startReceiver, until } from '../receiver.js';
import { afterTest, forSuite, opened, openForSuite } from '../servers.js';
import { startHarness, startWithWorker } from '../service.js';
import { box, type NoticesScene, receivedOf, startScene, toldOf } from './scene.js';

const settings = { failingAfter: 2, RETRY_SCHEDULE_SECONDS: '0.1', probeScheduleMs: [200] };

describe('Notices', () => {
  const h = openForSuite(() => startWithWorker(settings));
  const scene = forSuite(() => startScene(h));
  beforeEach(() => {
    scene.told.answer = () => 200;
  });

  it('are signed, and tell with counts that an endpoint fails, and that it recovers; also with an API and a worker apart', async () => {
    await assertToldOfFailure(scene);
    const apart = opened(await startHarness(settings, 'worker'));
    await apart.startWorker();
    const other = await startScene(apart);
    await assertToldOfFailure(other);
  });

  async function assertToldOfFailure({ newSite, fail, told, down }: NoticesScene): Promise<void> {
    const site = await newSite();
    await fail(site);
    const [failing] = await toldOf(told, site.client, 'endpoint.failing', site.secret);
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

    down.delete(site.client);
    const [recovered] = await toldOf(told, site.client, 'endpoint.recovered', site.secret);
    assert.ok(recovered);
    assert.equal(recovered.reason, 'a probe succeeded');
    assert.ok(recovered.attempts_failed >= 2);
    assert.equal(recovered.since, since, 'since when it has taken nothing');
    assert.ok(Date.parse(recovered.at) > Date.parse(at));
    const sent = receivedOf(told, site.client);
    assert.equal(new Set(sent.map(({ headers }) => headers['webhook-id'])).size, 2);
    for (const { headers } of sent) assert.equal(headers['webhook-client-token'], site.notices);
  }

  const notificationsOf = async (client: string) =>
    (await listNotifications(h.db, client, { limit: 10 })).notifications;
  const statesOf = async (client: string) =>
    (await notificationsOf(client)).map(({ platformId, state }) => [platformId, state]);
  const rotate = async (client: string) => {
    await rotateSigningSecret(h.db, box, client);
    await h.deps.notices.claim(client);
  };

  it('the platform gets those about the clients of every account, with its own secret, unless the account that set the URL is disabled', async () => {
    const platform = await startReceiver();
    const wanted = { name: 'The platform', scopes: ['enrichments'] };
    const [{ account_id: first }, { account_id: second }] = [
      await createAccount(h.db, wanted),
      await createAccount(h.db, wanted),
    ];
    const notices = noticesClient('platform');
    afterTest(() => removeNoticesUrl(h.db, notices));
    await setNoticesUrl(h.db, box, first, 'http://127.0.0.1:9/');
    const secret = await createSigningSecret(h.db, box, notices);
    await setNoticesUrl(h.db, box, second, platform.url);
    await setScopes(h.db, first, ['push_notifications']);
    const site = await scene.newSite();
    await scene.fail(site);
    const [its] = await toldOf(platform, site.client, 'endpoint.failing', secret);
    assert.deepEqual(await toldOf(scene.told, site.client, 'endpoint.failing', site.secret), [its]);
    const [one, other] = [scene.told, platform].map((told) => receivedOf(told, site.client)[0]?.headers);
    assert.notEqual(one?.['webhook-id'], other?.['webhook-id']);
    assert.equal(other?.['webhook-client-token'], notices);
    await setStopped(h.db, first, 'disabled', true);
    assert.equal((await getEndpoint(h.db, notices)).held, false, 'the account that set the URL last has it');
    await setStopped(h.db, second, 'disabled', true);
    assert.equal((await getEndpoint(h.db, notices)).held, true);
    const { account_id: third } = await createAccount(h.db, wanted);
    const disable = () => setStopped(h.db, third, 'disabled', true);
    await setNoticesUrl(dbThat(disable, 'hget'), box, third, platform.url);
    assert.equal((await getEndpoint(h.db, notices)).held, true, 'disabled while it sets the URL');
    const { account_id: fourth } = await createAccount(h.db, wanted);
    const degrade = () => setScopes(h.db, fourth, ['push_notifications']);
    await setNoticesUrl(dbThat(degrade, 'hget'), box, fourth, platform.url);
    const urls = [notices, noticesClient(fourth)].map((client) => getRegistration(h.db, client));
    assert.deepEqual(
      (await Promise.all(urls)).map((one) => one?.url),
      [undefined, platform.url],
    );
  });

  it('an endpoint is one asset and its secret another: of several changes that wait, the newest is sent', async () => {
    const site = await scene.newSite();
    scene.told.answer = () => 410;
    await scene.fail(site);
    await toldOf(scene.told, site.client, 'endpoint.failing', site.secret);
    await until('its own endpoint is suspended', async () => {
      return (await getEndpoint(h.db, site.notices)).state === 'suspended';
    });
    scene.told.answer = () => 200;
    scene.down.delete(site.client);
    await until('it has recovered', async () => (await getEndpoint(h.db, site.client)).state === 'active');
    await rotate(site.client);
    await until('all are claimed', async () => (await notificationsOf(site.notices)).length === 3);
    await setNoticesUrl(h.db, box, site.accountId, scene.told.url);
    await h.wake(site.notices);
    await toldOf(scene.told, site.client, 'endpoint.recovered', site.secret);
    await toldOf(scene.told, site.client, 'secret.rotated', site.secret);
    await until('both are delivered', async () => (await getEndpoint(h.db, site.notices)).owed === 0);
    assert.deepEqual(await statesOf(site.notices), [
      [`${site.client}/secret`, 'delivered'],
      [site.client, 'delivered'],
      [site.client, 'superseded'],
    ]);
    assert.equal(receivedOf(scene.told, site.client).length, 3);
    assert.deepEqual(receivedOf(scene.told, site.notices), [], 'nothing about its own endpoint');
    assert.deepEqual(await unclaimedNotices(h.db, site.notices), []);
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
  });

  it('the sweep claims the notice of a process that ended right after rotating a secret, also after a count by a clock that was an hour ahead', async () => {
    const site = await scene.newSite();
    await runSweep({ ...h.deps, db: { ...h.db, clockOffsetMs: () => 3_600_000 } });
    await rotateSigningSecret(h.db, box, site.client);
    assert.equal((await unclaimedNotices(h.db, site.client)).length, 1);
    await h.sweep();
    const [rotated] = await toldOf(scene.told, site.client, 'secret.rotated', site.secret);
    assert.deepEqual(
      [rotated?.reason, rotated?.attempts_failed, rotated?.owed],
      ['the signing secret was rotated', 0, 0],
    );
    assert.equal(rotated?.since, rotated?.at);
    assert.deepEqual(await unclaimedNotices(h.db, site.client), []);
  });

  it('a notice that is claimed twice, as after a crash, is one notification; a newer one stays', async () => {
    const site = await scene.newSite();
    await rotateSigningSecret(h.db, box, site.client);
    const [notice] = await unclaimedNotices(h.db, site.client);
    assert.ok(notice);
    await dropNotice(h.db, site.client, { ...notice, stored: 'an older one' } as Notice);
    await h.deps.notices.claim(site.client);
    await h.db.redis.hset(h.db.client(site.client).endpoint, notice.field, notice.stored);
    await h.deps.notices.claim(site.client);
    assert.deepEqual(await unclaimedNotices(h.db, site.client), []);
    await toldOf(scene.told, site.client, 'secret.rotated', site.secret);
    assert.equal((await notificationsOf(site.notices)).length, 1);
  });

  /** Returns a connection that does `next` after its first script, or its first look at a field. */
  function dbThat(next: () => unknown, command: 'call' | 'hget' | 'hmget' = 'call'): Db {
    const redis = Object.create(h.db.redis);
    const send = h.db.redis[command] as (...args: string[]) => Promise<unknown>;
    redis[command] = async (...args: string[]) => {
      delete redis[command];
      const answer = await send.apply(h.db.redis, args);
      await next();
      return answer;
    };
    return { ...h.db, redis };
  }

  it('a site that changes again and again leaves no more in Redis than its last change', async () => {
    const site = await scene.newSite();
    const known = async () => {
      const { bucket, field } = assetSlot(`${site.client}/secret`);
      return h.db.redis.hstrlen(h.db.client(site.notices).known(bucket), field);
    };
    const sizes: number[] = [];
    for (let i = 0; i < 3; i++) {
      await rotateSigningSecret(h.db, box, site.client);
      await h.deps.notices.claim(site.client);
      sizes.push(await known());
    }
    assert.equal(new Set(sizes).size, 1, `${sizes}`);
  });

  it('a process that stalls between reading a notice and claiming it puts no older one in the place of a newer one', async () => {
    const site = await scene.newSite();
    await rotateSigningSecret(h.db, box, site.client);
    const db = dbThat(() => rotate(site.client), 'hmget');
    await createNotices({ ...h.deps, db }).claim(site.client);
    await toldOf(scene.told, site.client, 'secret.rotated', site.secret);
    assert.equal((await notificationsOf(site.notices)).length, 1);
    assert.deepEqual(await unclaimedNotices(h.db, site.client), []);
  });

  it('a removed URL cancels those that are owed, in one step; one that is set meanwhile has a secret; without a URL, or of a deleted client, none is made', async () => {
    const [site, other] = [await scene.newSite(), await scene.newSite()];
    scene.told.answer = () => 500;
    await rotate(site.client);
    await until('it was tried', () => receivedOf(scene.told, site.client).length > 0);
    await assert.rejects(removeNoticesUrl(dbThat(assert.fail), site.notices));
    const ended = (await notificationsOf(site.notices)).map(({ state, reason }) => [state, reason]);
    assert.deepEqual(ended, [['cancelled', 'url_removed']]);
    assert.equal(await h.db.redis.exists(h.db.client(site.notices).signingSecrets), 0);
    await rotate(site.client);
    assert.deepEqual(await unclaimedNotices(h.db, site.client), []);
    assert.equal((await notificationsOf(site.notices)).length, 1);

    const setAgain = () => setNoticesUrl(h.db, box, other.accountId, scene.told.url);
    await removeNoticesUrl(dbThat(setAgain), other.notices);
    assert.equal((await readSecrets(h.db, box, other.notices)).signing.length, 1, 'set during the removal');
    await rotateSigningSecret(h.db, box, other.client);
    await deleteClient(h.db, other.client);
    await h.deps.notices.claim(other.client);
    assert.deepEqual(await notificationsOf(other.notices), []);
  });

  it('of the platform, set by two accounts at once: each URL that goes is told, and the last one’s account is the owner', async () => {
    const client = noticesClient('platform');
    const newPlatform = async () =>
      (await createAccount(h.db, { name: 'A platform', scopes: ['enrichments'] })).account_id;
    const [one, other] = [await newPlatform(), await newPlatform()];
    const urls = ['before', 'other', 'one'].map((path) => `${scene.told.url}/${path}`) as [
      string,
      string,
      string,
    ];
    await setNoticesUrl(h.db, box, one, urls[0]);
    const told: string[] = [];
    await setNoticesUrl(h.db, box, one, urls[2], async (_, present) => {
      if (told.push(present) === 1) await setNoticesUrl(h.db, box, other, urls[1]);
    });
    assert.deepEqual(told, urls.slice(0, 2));
    assert.deepEqual(await removeNoticesUrl(h.db, client, urls[1]), { done: 0, isOther: true });
    assert.equal((await getRegistration(h.db, client))?.url, urls[2]);

    await h.db.redis.sadd(h.db.global.accountClients(other), client); // as if it had just found it among its own
    await setStopped(h.db, other, 'disabled', true);
    assert.equal((await getEndpoint(h.db, client)).held, false);
    await setScopes(h.db, one, ['push_notifications']);
    assert.equal(await getRegistration(h.db, client), undefined);
  });
});
