import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { rotateSecret, setStopped } from '../../src/redis/records/accounts.js';
import { listCalls } from '../../src/redis/records/audit.js';
import { createClient } from '../../src/redis/records/clients.js';
import { callRaw, statusesIn } from '../api/rawCaller.js';
import { keysMatching } from '../keysMatching.js';
import { forTest, opened } from '../servers.js';
import { newCustomer, newToken, startHarness, useShared } from '../service.js';
import { formTokenIn, newLink, signedIn, Visitor } from './visitor.js';

describe('console: links and sessions', () => {
  const h = useShared();
  const customer = forTest(() => newCustomer(h));
  let token: string;
  beforeEach(async () => {
    token = customer.token;
  });

  it('shows again what a form without a session had, whatever its fields are called', async () => {
    for (const name of ['constructor', '__proto__', 'toString', 'url']) {
      const { status, html } = await new Visitor(h.url).post('/console/sites/a/test', {
        [name]: 'what I wrote',
      });
      assert.deepEqual([status, html.includes('what I wrote')], [401, true], name);
    }
  });

  it('POST /console_sessions makes a link that opens the account’s sites once', async () => {
    const link = await newLink(h, token);
    const visitor = new Visitor(h.url);
    const opened = await visitor.open(link);
    assert.deepEqual([opened.status, opened.headers.get('location')], [303, '/console?entered']);
    assert.equal((await visitor.get('/console?entered')).headers.get('location'), '/console');
    const cookie = opened.headers.get('set-cookie') ?? '';
    assert.match(cookie, /^console_session=\S+; Path=\/; HttpOnly; SameSite=Lax; Max-Age=28800$/);
    const sites = await visitor.get('/console');
    assert.equal(sites.status, 200);
    assert.ok(sites.html.includes(customer.client_token));
    const again = await new Visitor(h.url).open(link);
    assert.equal(again.status, 401);
    assert.match(again.html, /has been used, or is older than 15 minutes/);
  });

  it('opens one session for a link that several callers use concurrently, after a chat’s preview fetched its address', async () => {
    const link = await newLink(h, token);
    assert.equal((await fetch(link)).status, 200);
    const opened = await Promise.all(Array.from({ length: 8 }, () => new Visitor(h.url).open(link)));
    assert.deepEqual(opened.map(({ status }) => status).sort(), [303, ...Array(7).fill(401)]);
    const calls = await listCalls(h.db, [customer.account_id]);
    const told = (of: string) =>
      calls.filter(({ what }) => what === `console ${of}`).map(({ tokenFingerprint }) => tokenFingerprint);
    const [all, late] = [told('opened'), told('link used before')];
    assert.equal(all.filter((one) => !late.includes(one)).length, 1, `${all} but ${late}`);
  });

  it('leads to the page that was asked for before the link was opened, and to no other place', async () => {
    const wanted = `/console/sites/${customer.client_token}/notifications?state=failed&platform_id=%2F%20`;
    const visitor = new Visitor(h.url);
    await visitor.get(wanted);
    const places = { [visitor.cookie]: wanted };
    for (const place of ['//evil.example', 'https://evil.example/console/', '/consoles', '/console/\r\nx: y'])
      places[`console_page=${Buffer.from(place).toString('base64url')}`] = '/console';
    for (const [cookie, place] of Object.entries(places)) {
      visitor.cookie = cookie;
      const { headers } = await visitor.open(await newLink(h, token));
      assert.match(headers.get('location') ?? '', /[?&]entered$/);
      assert.equal(headers.get('location')?.slice(0, -'?entered'.length), place);
    }
  });

  it('ends a link after 15 minutes, and a session after 8 hours', async () => {
    const { redis, global } = h.db;
    const link = await newLink(h, token);
    const linkKey = global.consoleLink(hash('sha256', new URL(link).hash.slice(1)));
    assertNear(await redis.pttl(linkKey), 15 * 60_000);
    const visitor = await signedIn(h, token);
    const sessionKey = global.consoleSession(hash('sha256', visitor.secret));
    assertNear(await redis.pttl(sessionKey), 8 * 3_600_000);
    for (const key of [linkKey, sessionKey]) await redis.pexpire(key, 1);
    for (const key of [linkKey, sessionKey]) while ((await redis.exists(key)) > 0);
    assert.equal((await new Visitor(h.url).open(link)).status, 401);
    await assertSignedOut(visitor);
  });

  const assertNear = (ms: number, atMostMs: number) =>
    assert.ok(ms <= atMostMs && ms > atMostMs - 60_000, String(ms));

  async function assertSignedOut(visitor: Visitor): Promise<void> {
    const page = await visitor.get('/console');
    assert.deepEqual([page.status, page.headers.get('location')], [303, '/console/open']);
    const open = await visitor.get('/console/open');
    assert.match(open.html, /You are not signed in/);
    assert.match(open.html, /POST \/console_sessions/);
    const part = await visitor.get('/console', { 'HX-Request': 'true' });
    assert.equal(part.status, 401);
    assert.match(
      part.html,
      /<div id="result".*Your session has ended, and nothing was done\. What you have written is kept/,
    );
  }

  it('ends links and sessions when the account is disabled or all its tokens end', async () => {
    for (const end of [
      () => setStopped(h.db, customer.account_id, 'disabled', true),
      () => rotateSecret(h.db, customer.account_id, { now: true }),
    ]) {
      const fresh = await newToken(h, customer);
      const [link, visitor] = [await newLink(h, fresh), await signedIn(h, fresh)];
      await end();
      assert.equal((await new Visitor(h.url).open(link)).status, 401);
      await assertSignedOut(visitor);
      await setStopped(h.db, customer.account_id, 'disabled', false);
    }
  });

  it('carries out no form whose end comes after its session has ended', async () => {
    const visitor = await signedIn(h, token);
    const here = `/console/sites/${customer.client_token}`;
    const form_token = formTokenIn((await visitor.get(`${here}/actions`)).html);
    const end = visitor.postWithoutEnd(`${here}/signing_secret/rotate`, { form_token });
    // Longer than what is found holds.
    await pause(1100);
    await setStopped(h.db, customer.account_id, 'disabled', true);
    const heard = await end();
    await setStopped(h.db, customer.account_id, 'disabled', false);
    assert.deepEqual(statusesIn(heard), [401]);
    assert.match(heard, /Your session has ended, and nothing was done/);
  });

  it('ends the session for every copy of its cookie after signing out', async () => {
    const visitor = await signedIn(h, token);
    const copy = new Visitor(h.url);
    copy.cookie = visitor.cookie;
    const out = await visitor.submit(await visitor.get('/console'), '/console/sign_out');
    assert.equal(out.status, 303);
    await assertSignedOut(copy);
  });

  it('stores only the SHA-256 of links and sessions, and shows the account’s credentials on no page', async () => {
    const link = await newLink(h, token);
    const visitor = await signedIn(h, token);
    const secrets = [new URL(link).hash.slice(1), visitor.secret];
    const { redis } = h.db;
    for (const key of await keysMatching(h.db, `${h.prefix}console-*`)) {
      const stored = `${key} ${await redis.get(key)}`;
      for (const secret of secrets) assert.ok(!stored.includes(secret));
    }
    const seen = `${link} ${visitor.cookie} ${(await visitor.get('/console')).html}`;
    const id = customer.client_id.slice(4);
    for (const hidden of [id, customer.client_secret, token]) assert.ok(!seen.includes(hidden), hidden);
  });

  it('has in the audit who makes and who opens a link, with its access, the session’s fingerprint and address', async () => {
    const head = `POST /console_sessions HTTP/1.1\r\nhost: a_b\r\nauthorization: Bearer ${token}\r\n`;
    const refused = callRaw(h.url, `${head}connection: close\r\n\r\n`);
    assert.match(await refused.closed, /The header Host is not a host/, 'and no entry');
    const visitor = await signedIn(h, token, '?access=read');
    const sha256 = hash('sha256', visitor.secret);
    const [made, opened] = (await listCalls(h.db, [customer.account_id])).filter(({ what }) =>
      what.startsWith('console'),
    );
    assert.deepEqual([made?.what, made?.about], ['console', { access: 'read' }]);
    assert.deepEqual(
      [opened?.what, opened?.tokenFingerprint, opened?.address, opened?.about],
      ['console opened', `console:${sha256.slice(0, 12)}`, '127.0.0.1', { access: 'read' }],
    );
  });

  it('POST /console_sessions answers 400 for another access', async () => {
    for (const query of ['access=write', 'access='])
      assert.equal((await customer.call('POST', `/console_sessions?${query}`)).status, 400);
  });

  it('asks before a link changes the account of an open session, and ends that session when it does', async () => {
    const other = await newCustomer(h);
    const visitor = await signedIn(h, token);
    assert.equal((await visitor.open(await newLink(h, token))).status, 303, 'the same account');
    const [cookie, sites] = [visitor.cookie, async () => (await visitor.get('/console')).html];
    const link = await newLink(h, other.token);
    const asked = await visitor.open(link);
    assert.equal(asked.status, 200);
    assert.match(asked.html, /You are signed in to[\s\S]*Stay in/);
    assert.match(await sites(), new RegExp(customer.client_token));
    const guessed = await visitor.post('/console/open', { link: link.split('#')[1] ?? '', form_token: 'x' });
    assert.equal(guessed.status, 200);
    assert.equal((await visitor.submit(asked, '/console/open')).status, 303);
    assert.match(await sites(), new RegExp(other.client_token));
    visitor.cookie = cookie;
    assert.equal((await visitor.get('/console')).status, 303);
  });

  it('lists the account’s sites page by page, and no site of another account', async () => {
    await newCustomer(h);
    const { account_id: accountId, client_token } = customer;
    const names = Array.from({ length: 60 }, (_, i) => `${client_token}-${String(i).padStart(2, '0')}`);
    for (const clientToken of names)
      await createClient(h.db, { accountId, name: `<b>${clientToken}`, clientToken });
    const visitor = await signedIn(h, token);
    const first = await visitor.get('/console');
    const next = /href="(\/console\?cursor=[^"]+)"/.exec(first.html)?.[1] ?? '';
    const second = await visitor.get(next);
    const rows = [first, second].map((page) =>
      [...page.html.matchAll(/<tr id="site-([^"]+)"/g)].map(([, t]) => t),
    );
    assert.deepEqual(rows.flat(), [client_token, ...names]);
    assert.equal(rows[0]?.length, 50);
    assert.ok(!first.html.includes('<b>') && first.html.includes('&#60;b&#62;'));
    const pasted = encodeURIComponent(`"${names[59]}"\u200b,`);
    const lead = await visitor.get(`/console?site=${pasted}`);
    assert.equal(lead.headers.get('location'), `/console/sites/${names[59]}`);
    const without = await visitor.get('/console?state=not_registered');
    assert.match(without.html, /href="\/console\?state=not_registered&#38;cursor=/);
    assert.match((await visitor.get('/console?state=paused')).html, /There are no such sites here\./);
    const named = await visitor.get(`/console?site=${names[7]?.slice(4).toLowerCase()}`);
    assert.deepEqual(named.html.match(/<tr id="site-[^"]+"/g), [`<tr id="site-${names[7]}"`]);
    assert.match((await visitor.get('/console?cursor=zzz')).html, /There are no further sites here\./);
  });

  it('shows the other sites beside one whose keys are broken, and of that one an error as a page', async () => {
    const { account_id: accountId, client_token: clientToken, token: own, call } = await newCustomer(h);
    await createClient(h.db, { accountId, name: 'Another' });
    await h.db.redis.set(h.db.client(clientToken).endpoint, 'broken');
    const visitor = await signedIn(h, own);
    const { html } = await visitor.get('/console');
    assert.match(html, />Another<\/a>/);
    assert.match(html, /unreadable<\/span> its data is broken/);
    const { body } = await call('GET', '/clients');
    const states = (body.clients as { state: string }[]).map(({ state }) => state).sort();
    assert.deepEqual(states, ['not_registered', 'unreadable']);
    const page = await visitor.get(`/console/sites/${clientToken}`);
    assert.equal(page.status, 500);
    assert.match(page.html, /<h1>That did not work.*code server_error/s);
  });

  it('sets over https a cookie that is __Host- and Secure', async () => {
    const env = { KEY_PREFIX: h.prefix, PUBLIC_URL: 'https://hooks.example.com' };
    const secured = opened(await startHarness(env, 'api'));
    const link = await newLink(secured, token);
    assert.match(link, /^https:\/\/hooks\.example\.com\/console\/open#/);
    const browser = new Visitor(secured.url);
    const origin = { origin: 'https://hooks.example.com' };
    const entered = await browser.post('/console/open', { link }, origin);
    assert.match(
      entered.headers.get('set-cookie') ?? '',
      /^__Host-console_session=\S+; Secure; Path=\/; HttpOnly/,
    );
    assert.equal((await browser.get('/console')).status, 200);
    browser.cookie = browser.cookie.replace('__Host-', '');
    assert.equal((await browser.get('/console')).status, 303, 'a cookie that an http page could have set');
  });

  it('answers 403 if a page of another site opens a link or ends a session', async () => {
    const visitor = await signedIn(h, token);
    const elsewhere = [{ origin: 'https://evil.example' }, { 'sec-fetch-site': 'cross-site' }] as const;
    for (const headers of elsewhere) {
      const refused = await visitor.post('/console/sign_out', {}, headers);
      assert.equal(refused.status, 403);
      assert.match(refused.html, /by a page of another site; these pages are at http:\/\/127\.0\.0\.1:\d+/);
      const link = await newLink(h, token);
      assert.equal((await visitor.post('/console/open', { link }, headers)).status, 403);
    }
    assert.equal((await visitor.get('/console')).status, 200);
  });

  it('says to a browser that takes no cookies why its link has not opened the console', async () => {
    const link = await newLink(h, token);
    const { headers } = await new Visitor(h.url).open(link);
    const visitor = new Visitor(h.url);
    const to = async (path: string | null, from = {}) =>
      (await visitor.get(path ?? '', from)).headers.get('location');
    const refused = await to(headers.get('location'));
    const page = await visitor.get(refused ?? '');
    assert.match(page.html, /Your browser has refused the cookie of your session/);
    const used = await visitor.open(link);
    assert.match(used.html, /href="\/console">Back/);
    assert.equal(
      await to('/console', { referer: `${h.url}/console/open` }),
      '/console/open',
      'it blames a used link',
    );
  });
});
