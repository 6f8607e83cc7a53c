import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { ignore } from '../../src/redis/connection/unavailable.js';
import { listNotifications } from '../../src/redis/notifications/notificationPages.js';
import { countEndpoints } from '../../src/redis/records/counts.js';
import { setNoticesUrl } from '../../src/redis/records/notices.js';
import type { Role } from '../../src/redis/records/operatorAccess.js';
import { changeRegistration, resetRegistration } from '../../src/redis/records/registrations.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import {
  askForUrl,
  declineUrl,
  readUrlRequest,
  waitingUrlRequests,
} from '../../src/redis/records/urlRequests.js';
import { signedIn, Visitor } from '../console/visitor.js';
import { openForSuite } from '../servers.js';
import { newCustomer } from '../service.js';
import { personAt, startDesk } from './scene.js';

const present = 'http://127.0.0.1:9/now?key=url-secret';
const wanted = 'http://127.0.0.1:10/wanted?key=url-secret';
const reason = 'we have moved';
const dayMs = 86_400_000;

describe('a request for another URL', () => {
  const scene = openForSuite(() => startDesk());

  async function site() {
    const customer = await newCustomer(scene.h);
    await customer.register(present);
    const { client_token } = customer;
    const path = '/push_notifications/url_request';
    return {
      customer,
      client_token,
      ask: async (url = wanted, why = reason) => {
        await customer.forgetSends();
        return customer.call('PUT', path, { url, reason: why });
      },
      state: async () => (await customer.call('GET', path)).body.state,
      shown: () => customer.call('GET', path),
      does: (what: string, more: object = {}, role: Role = 'support') =>
        scene.call(role, 'POST', `/operator/registration/${what}`, { client_token, ...more }),
      requests: async (role: Role = 'support') =>
        (await scene.call(role, 'GET', `/operator/registration/requests?client=${client_token}`)).body
          .requests,
      url: async () => (await customer.call('GET', '/push_notifications')).body.url,
    };
  }

  it('waits for an operator, who sees who asks and why: accepted, it changes the URL and is told', async () => {
    const { customer, client_token, ask, shown, does, requests, url } = await site();
    const { db, apiDeps } = scene.h;
    await setNoticesUrl(db, apiDeps.secretBox, customer.account_id, 'http://127.0.0.1:9/notices');
    assert.deepEqual((await shown()).body.code, 'no_url_request');
    assert.equal((await does('accept')).status, 409);
    const { body } = await ask();
    assert.deepEqual([body.url, body.reason, body.state], [wanted, reason, 'waiting']);
    assert.equal(Date.parse(String(body.until)) - Date.parse(String(body.asked_at)), 14 * dayMs);
    const raw = await db.redis.hgetall(db.client(client_token).signingSecrets);
    assert.ok(!JSON.stringify(raw).includes('wanted'), 'sealed');
    const [one] = await requests();
    assert.deepEqual(
      [one.account_id, one.present_url, one.url, one.reason],
      [customer.account_id, present, wanted, reason],
    );
    assert.match(one.asked_by, /^token [0-9a-f]{12}$/);
    const [origins] = await requests('look');
    assert.deepEqual([origins.present_url, origins.url], ['http://127.0.0.1:9', 'http://127.0.0.1:10']);
    assert.equal((await does('accept', {}, 'look')).status, 403);
    assert.equal(await url(), present, 'only an operator changes it');
    const both = await Promise.all([does('accept'), does('accept')]);
    assert.deepEqual(both.map(({ status }) => status).sort(), [200, 409]);
    assert.deepEqual([await url(), (await shown()).body.state], [wanted, 'accepted']);
    assert.deepEqual(await requests(), []);
    const { body: former } = await scene.call(
      'support',
      'GET',
      `/operator/registration/former?client_token=${client_token}`,
    );
    assert.equal(former.former_urls[0].url, present);
    const notices = `notices:${customer.account_id}`;
    const { notifications } = await listNotifications(db, notices, { limit: 1 });
    const told = await db.redis.hget(
      db.client(notices).notification(notifications[0]?.notificationId ?? ''),
      'body',
    );
    assert.equal(JSON.parse(told ?? '').reason, 'an operator has accepted the URL that was asked for');
    const entries = await scene.cli.json('audit', '--of', client_token);
    assert.doesNotMatch(JSON.stringify(entries), /url-secret/);
    const [asks] = entries.filter(({ what }: { what: string }) => what === 'registration request');
    assert.match(JSON.stringify(asks), /we have moved/);
  });

  it('is one of a site, answered as a page has shown it, and in a list whose next page goes on where it was', async () => {
    const { ask, does, requests, client_token } = await site();
    await ask();
    const [{ request }] = await requests();
    await ask(`${wanted}&n=2`);
    for (const what of ['accept', 'decline']) assert.equal((await does(what, { request })).status, 409);
    const other = await site();
    await other.ask();
    const page = async (cursor = '') =>
      (await scene.call('look', 'GET', `/operator/registration/requests?limit=1${cursor}`)).body;
    const first = await page();
    assert.equal(first.requests[0].client_token, client_token);
    await does('decline');
    const second = await page(`&cursor=${first.next_cursor}`);
    assert.equal(second.requests?.[0].client_token, other.client_token);
    await other.does('decline');
  });

  it('that cannot be read hides none of another site, and is named; nor does a former URL hide another', async () => {
    const { db } = scene.h;
    const [broken, sound] = [await site(), await site()];
    await sound.ask();
    const lost = createSecretBox([{ id: 'lost', key: randomBytes(32) }]);
    const { client_token } = broken;
    await askForUrl(db, lost, client_token, { url: wanted, reason, by: 'token' });
    const all = await scene.call('look', 'GET', '/operator/registration/requests');
    const listed = all.body.requests.map((one: { client_token: string }) => one.client_token);
    assert.deepEqual([all.status, listed], [200, [sound.client_token]]);
    const says = `${client_token}(</a>)? for another URL cannot be read: SECRETS_KEY has no key`;
    const now = await (await personAt(scene, 'support')).get('/desk');
    assert.match(now.html, new RegExp(says));
    assert.match(now.html, new RegExp(`id="asked-${sound.client_token}"`));
    await sound.does('decline');
    await db.redis.del(db.client(client_token).signingSecrets);

    const until = Date.now() + 100 * dayMs;
    const fields = [`former:${until}:url_000000000001`, `former:${until + 1}:url_000000000002`] as const;
    const owner = `${client_token} former`;
    const sealed = { [fields[0]]: `plain:${wanted}`, [fields[1]]: lost.seal(wanted, owner) };
    await db.redis.hset(db.client(client_token).signingSecrets, sealed);
    const path = `/operator/registration/former?client_token=${client_token}`;
    const { body } = await scene.call('look', 'GET', path);
    assert.deepEqual(
      body.former_urls.map((one: { former: string }) => one.former),
      ['url_000000000001'],
    );
    await broken.does('reset');
    assert.match((await broken.does('restore')).body.msg, /SECRETS_KEY has no key/);
    assert.equal((await broken.does('restore', { former: 'url_000000000001' })).status, 200);
  });

  it('passes the address guard when it is asked for, and again when it is accepted', async () => {
    const { customer, ask, does, state } = await site();
    const { config } = scene.h.apiDeps;
    assert.deepEqual((await ask('http://10.0.0.1/')).body.code, 'url_not_public');
    assert.deepEqual((await ask('ftp://x')).body.code, 'url_scheme');
    assert.match(String((await ask(present)).body.msg), /is the registered one/);
    assert.equal((await ask(wanted, 'a\nb')).status, 400);
    await ask();
    const { ALLOWED_TARGET_CIDRS } = config;
    config.ALLOWED_TARGET_CIDRS = [];
    const { body } = await does('accept');
    config.ALLOWED_TARGET_CIDRS = ALLOWED_TARGET_CIDRS;
    assert.deepEqual([body.code, await state()], ['url_not_public', 'waiting']);
    await does('reset');
    assert.equal(await state(), 'void');
    assert.equal((await ask()).body.code, 'not_registered', 'the publisher registers one');
    const other = await newCustomer(scene.h);
    const asked = `/push_notifications/url_request?client_token=${customer.client_token}`;
    assert.equal((await other.call('PUT', asked, { url: wanted, reason })).status, 404);
  });

  it('is answered on the first page, on the site’s and on Change with one click, by who may; the console shows which', async () => {
    const visitors = { support: await personAt(scene, 'support'), look: await personAt(scene, 'look') };
    const { customer, client_token, state } = await site();
    const engineer = await signedIn(scene.h, customer.token);
    const here = `/console/sites/${client_token}`;
    const ofSite = `/desk/clients/${client_token}`;
    for (const [page, what, became] of [
      ['/desk', 'accept', 'accepted'],
      [ofSite, 'decline', 'declined'],
      [`${ofSite}/actions`, 'accept', 'accepted'],
    ] as const) {
      await customer.forgetSends();
      const url = `${wanted}&on=${page}`;
      const form = await engineer.get(`${here}/actions`);
      const sent = await engineer.submit(form, `${here}/url_request`, { url, reason });
      assert.match(sent.html, /Your request waits for/);
      const shown = await visitors.look.get(page);
      assert.doesNotMatch(shown.html, /url-secret|do\/registration\/accept"/);
      const offered = await visitors.support.get(page);
      assert.match(offered.html.replaceAll(/<[^>]*>/g, ''), /127\.0\.0\.1:\d+\S* → http:\/\/127\.0\.0\.1:10/);
      const done = await visitors.support.submit(offered, `/desk/do/registration/${what}`);
      assert.deepEqual([done.status, await state()], [200, became], done.html);
      assert.match((await engineer.get(here)).html, new RegExp(`Your request for .* was ${became} by `));
      assert.doesNotMatch((await visitors.support.get(page)).html, new RegExp(`do/registration/${what}"`));
    }
    const [entry] = (await scene.cli.json('audit', '--of', client_token, '--what', 'accept')).slice(-1);
    assert.equal(entry.why, `the publisher asks: ${reason}`);
  });

  it('and a change have the longest URL and reason in a form, too; nobody without a session sends as much', async () => {
    const { customer, client_token } = await site();
    const fields = { url: `${wanted}&long=`.padEnd(2046, '%E4%BD%A0'), reason: 'ы'.repeat(200) };
    const actions = `/console/sites/${client_token}`;
    const engineer = await signedIn(scene.h, customer.token);
    const asking = await engineer.get(`${actions}/actions`);
    const asked = await engineer.submit(asking, `${actions}/url_request`, fields);
    assert.match(asked.html, /Your request waits for/);
    const support = await personAt(scene, 'support');
    const page = await support.get(`/desk/clients/${client_token}/actions`);
    const changed = await support.submit(page, '/desk/do/registration/change', fields);
    assert.equal(changed.status, 200, changed.html);
    const stranger = new Visitor(scene.url);
    assert.equal((await stranger.post('/desk/do/registration/change', fields)).status, 413);
  });

  it('has one state, whatever is done about a site, in any order', async () => {
    const { db, apiDeps } = scene.h;
    const box = apiDeps.secretBox;
    const clientOf = (token: string) => readUrlRequest(db, box, token);
    const step = fc.constantFrom(
      'ask',
      'accept',
      'acceptOld',
      'decline',
      'declineOld',
      'change',
      'reset',
      'register',
      'wait',
      'sweep',
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 14 }), async (steps) => {
        const token = await scene.h.newClient(present);
        let n = 0;
        let url: string | undefined = present;
        let old = 'req_000000000000';
        let known: { request: string; url: string; state: string; until: number } | undefined;
        const now = () => Date.now() + db.clockOffsetMs();
        const waits = (request: string) =>
          known?.state === 'waiting' && known.request === request && known.until > now();
        const end = (state: string) => {
          if (known?.state === 'waiting') known = { ...known, state, until: now() + 14 * dayMs };
        };
        for (const one of steps) {
          if (one === 'ask') {
            const asked = { url: `${wanted}&n=${++n}`, reason, by: 'token' };
            const request = await askForUrl(db, box, token, asked);
            assert.equal(request === undefined, url === undefined);
            if (known) old = known.request;
            if (request) known = { request, url: asked.url, state: 'waiting', until: now() + 14 * dayMs };
          } else if (one.startsWith('accept')) {
            const accepted = one === 'accept' ? (known?.request ?? old) : old;
            const to = `${wanted}&to=${++n}`;
            const done = await changeRegistration(db, token, to, 'operator', {
              present: url ?? '',
              accepted,
            });
            const may: boolean = url !== undefined && waits(accepted);
            assert.equal(done !== undefined, may);
            if (may) url = to;
            if (may) end('accepted');
          } else if (one.startsWith('decline')) {
            const declined = one === 'decline' ? (known?.request ?? old) : old;
            const may: boolean = waits(declined);
            assert.equal(await declineUrl(db, token, declined), may);
            if (may) end('declined');
          } else if (one === 'change' && url !== undefined) {
            url = `${present}&n=${++n}`;
            await changeRegistration(db, token, url);
            end('void');
          } else if (one === 'reset' && url !== undefined) {
            url = undefined;
            await resetRegistration(db, token);
            end('void');
          } else if (one === 'register' && url === undefined) {
            await scene.h.registerUrl(token, present);
            url = present;
          } else if (one === 'wait') scene.h.skip(8 * dayMs);
          else if (one === 'sweep') {
            await countEndpoints(db, { broken: ignore, notice: ignore });
            if (known && known.until <= now())
              if (known.state === 'waiting') end('void');
              else known = undefined;
          }
          const found = await clientOf(token);
          // What is over is shown until the sweep has dropped it.
          if (known && known.until <= now() && known.state !== 'waiting') continue;
          const due = known && (known.until <= now() ? 'void' : known.state);
          assert.deepEqual([found?.request, found?.state, found?.url], [known?.request, due, known?.url]);
          const listed = (await waitingUrlRequests(db, box, assert.fail)).filter(
            (r) => r.clientToken === token,
          );
          assert.equal(listed.length, due === 'waiting' ? 1 : 0);
        }
      }),
      { numRuns: 25 },
    );
  });
});
