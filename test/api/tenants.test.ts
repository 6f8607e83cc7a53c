/** Every call of the description: the rules that all have in common, and every wrong token. */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import type { Schema } from '../../src/http/schemas.js';
import { rotateSecret, setStopped } from '../../src/redis/records/accounts.js';
import { listCalls } from '../../src/redis/records/audit.js';
import { deleteClient } from '../../src/redis/records/deletion.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { forSuite, openForSuite } from '../servers.js';
import { type Customer, newCustomer, newToken, startHarness } from '../service.js';
import { mintToken } from './credentials.js';
import { type Call, calls, everything, requestOf, type Subject } from './everyCall.js';

let receiver: Receiver;

/** Nothing of an account is in them, or they have their own test (accessToken.test.ts). */
const open = [
  '/oauth/access_token',
  '/oauth/revoke',
  '/healthz',
  '/readyz',
  '/openapi.json',
  '/docs',
  '/source_addresses',
];

describe('every call', () => {
  const h = openForSuite(() => startHarness());
  let mine: Subject;
  let theirs: Subject;
  const nothing: Subject = {
    client_token: 'SITE-of-nobody',
    id: `msg_${'A'.repeat(22)}`,
    platform_id: 'vid-nowhere',
    event_id: 'of-vid-nowhere',
  };
  const owner = forSuite(() => newCustomer(h, ['push_notifications', 'reports']));
  const stranger = forSuite(() => newCustomer(h));
  const platform = forSuite(() => newCustomer(h, ['enrichments']));
  const both = forSuite(() => newCustomer(h, ['enrichments', 'push_notifications']));
  /** Deleted. */
  const gone = forSuite(() => newCustomer(h));
  let invalid: Record<string, string>;
  let there: string[];

  before(async () => {
    receiver = await startReceiver();
    mine = await withNotification(owner, 'vid-mine');
    theirs = await withNotification(stranger, 'vid-theirs');
    await owner.call('PUT', '/notices', { url: receiver.url });
    await deleteClient(h.db, gone.client_token);
    invalid = await invalidTokens();
    there = await everything(h);
  });

  async function withNotification(customer: Customer, platform_id: string): Promise<Subject> {
    const { client_token } = customer;
    await customer.register(receiver.url);
    const event_id = `of-${platform_id}`;
    const { id } = await h.publish({ client: client_token, asset: platform_id, eventId: event_id });
    await h.delivered(client_token, id);
    return { client_token, id, platform_id, event_id };
  }

  async function invalidTokens(): Promise<Record<string, string>> {
    const [disabled, enabledAgain] = [await newCustomer(h), await newCustomer(h)];
    const rotated = await newCustomer(h);
    for (const { account_id } of [disabled, enabledAgain])
      await setStopped(h.db, account_id, 'disabled', true);
    await setStopped(h.db, enabledAgain.account_id, 'disabled', false);
    await rotateSecret(h.db, rotated.account_id, { now: true });
    const expired = String(await mintToken(h.db, owner, ['push_notifications'], 0.05));
    const statusOf = async () => (await ask('GET /clients', mine, bearer(expired))).status;
    await until('it has expired', async () => (await statusOf()) === 401);
    return {
      expired,
      'of a disabled account': disabled.token,
      'of an account that was disabled and enabled again': enabledAgain.token,
      'of an account whose secret was rotated with --now': rotated.token,
      'with another last character': owner.token.slice(0, -1) + (owner.token.at(-1) === 'A' ? 'B' : 'A'),
      'without its last character': owner.token.slice(0, -1),
      'with a character too many': `${owner.token}A`,
      'of a stranger under the owner’s name': owner.account_id.slice(4) + stranger.token.slice(-43),
      'of 300 characters': 'A'.repeat(300),
      'of one character': 'x',
      'that is the client secret': owner.client_secret,
    };
  }

  interface Answer {
    status: number;
    headers: Record<string, string>;
    body: Record<string, unknown>;
  }

  /** Asks with what the description requires. @returns everything of the answer but what names this one request */
  async function ask(
    call: Call | string,
    subject: Subject,
    authorization: string | undefined,
    { query = {} }: { query?: Record<string, string> } = {},
  ): Promise<Answer> {
    const found = typeof call === 'string' ? calls.find(({ name }) => name === call) : call;
    const { method, isJson } = found ?? assert.fail();
    const request = requestOf(found as Call, subject, { url: receiver.url, owner });
    const { filled, query: asked, json, form } = request;
    for (const [name, value] of Object.entries(query)) asked.set(name, value);
    const sent = json ? JSON.stringify(json) : form && new URLSearchParams(form);
    const answer = await fetch(`${h.url}${filled}?${asked}`, {
      method,
      headers: {
        ...(authorization !== undefined && { authorization }),
        ...(isJson && { 'content-type': 'application/json' }),
      },
      ...(sent && { body: sent }),
    });
    const { 'x-request-id': _, date: __, ratelimit: ___, ...headers } = Object.fromEntries(answer.headers);
    const text = await answer.text();
    const { request_id, type: of, title, ...body } = text.startsWith('{') ? JSON.parse(text) : { text };
    return { status: answer.status, headers, body };
  }

  const bearer = (token: string) => `Bearer ${token}`;
  const bearerFor = ({ isPublishing }: Call) => bearer((isPublishing ? platform : owner).token);

  it('is public only if it has nothing of an account; lists have cursors; 503 is explained', () => {
    for (const { name, path, method, needsToken, names, operation } of calls) {
      assert.equal(needsToken, !open.includes(path), name);
      const content = (operation.responses['200']?.content ?? {}) as Record<string, { schema?: Schema }>;
      const [media] = Object.values(content);
      const members = (media?.schema?.properties ?? {}) as Schema;
      const isList = names.includes('limit');
      assert.deepEqual(
        [names.includes('cursor'), 'next_cursor' in members, 'has_more' in members, names.includes('after')],
        [isList, isList, isList, false],
        name,
      );
      if (method !== 'get' && operation.responses['503'])
        assert.match(operation.description, /After 503 or no answer: /, name);
    }
  });

  it('has errors whose type is a page that explains the code', async () => {
    const answer = await fetch(`${h.url}/nowhere`);
    const { type, title, code } = (await answer.json()) as Record<string, string>;
    assert.deepEqual([type, code], ['/docs/errors#not_found', 'not_found']);
    const page = await (await fetch(new URL(String(type), h.url))).text();
    assert.ok(page.includes('<section id="not_found">') && page.includes(String(title).split('.')[0] ?? ''));
  });

  for (const call of calls) {
    const { name, path, isRegistration } = call;

    it(`${name}: refuses 8,000 parameters before anything is looked up, and an unknown one`, async () => {
      const many = await fetch(`${h.url}${path}?${'a&'.repeat(8_000)}`, { method: call.method });
      const { code, error } = (await many.json()) as Record<string, string>;
      assert.deepEqual([many.status, code ?? error], [400, code ? 'too_many_parameters' : 'invalid_request']);
      const unknown = await ask(call, mine, bearerFor(call), { query: { after_all: '1' } });
      assert.equal(unknown.status, 400);
      assert.match(JSON.stringify(unknown.body), /after_all is not known/);
    });

    if (!call.needsToken) continue;

    it(`${name}: gives one answer to all invalid tokens, for any subject`, async () => {
      for (const [kind, access_token] of Object.entries(invalid)) {
        for (const subject of kind === 'expired' ? [mine, theirs, nothing] : [mine]) {
          const answers = [await ask(call, subject, bearer(access_token))];
          if (isRegistration) answers.push(await ask(call, subject, undefined, { query: { access_token } }));
          for (const { status, headers, body } of answers) {
            assert.equal(headers['www-authenticate'], 'Bearer error="invalid_token"', kind);
            const expected = { msg: 'The access token is no longer valid', code: 'invalid_token' };
            assert.deepEqual([status, body], [401, expected], kind);
          }
        }
      }
    });

    it(`${name}: refuses no token, another scheme, and a token in the wrong place or in both`, async () => {
      const valid = bearerFor(call).slice('Bearer '.length);
      const basic = Buffer.from(`${owner.client_id}:${owner.client_secret}`).toString('base64');
      for (const authorization of [
        undefined,
        '',
        'Bearer',
        'Bearer ',
        `Basic ${basic}`,
        `Token ${valid}`,
        valid,
        `Bearer ${valid} ${valid}`,
        `Bearer "${valid}"`,
      ]) {
        const { status, headers, body } = await ask(call, mine, authorization);
        const missing = isRegistration && !/^Bearer \S/.test(authorization ?? '');
        assert.equal(status, missing ? 400 : 401, authorization);
        if (missing) assert.equal(body.msg, 'The parameter access_token is missing');
        else assert.equal(body.code, 'invalid_token');
        if (authorization !== undefined || isRegistration) continue;
        assert.equal(headers['www-authenticate'], 'Bearer');
        assert.match(String(body.msg), /send Authorization: Bearer/);
      }
      const query = { access_token: valid };
      const both = await ask(call, mine, bearerFor(call), { query });
      assert.deepEqual([both.status, both.body.code], [400, 'invalid_request']);
      assert.match(String(both.body.msg), /access_token/);
      if (isRegistration) return;
      const inQuery = await ask(call, mine, undefined, { query });
      assert.equal(inQuery.status, 400);
      assert.match(String(inQuery.body.msg), /send Authorization: Bearer/);
    });

    if (call.isAboutClient && !call.isPublishing) {
      it(`${name}: answers another account the same for the owner’s, an unknown and a deleted client`, async () => {
        const code = isRegistration ? 'invalid_client_token' : 'unknown_client';
        const msg = 'The client token is not valid for this account';
        const expected = [isRegistration ? 401 : 404, { msg, code }];
        const { client_token: its } = mine;
        for (const client_token of [its, 'NOBODY', gone.client_token]) {
          for (const { token } of [stranger, platform]) {
            if (call.isForPlatform && token === platform.token && client_token === its) continue;
            const { status, headers, body } = await ask(call, { ...mine, client_token }, bearer(token));
            assert.deepEqual([status, body], expected, client_token);
            assert.equal(headers['www-authenticate'], isRegistration ? 'Bearer' : undefined);
          }
        }
      });
    }

    if (path.includes('{') && !call.isPublishing) {
      it(`${name}: answers another account the same for the owner’s and an unknown one`, async () => {
        const { client_token } = theirs;
        const askAbout = (about: Subject) => ask(call, { ...about, client_token }, bearer(stranger.token));
        const known = await askAbout(mine);
        assert.deepEqual(known, await askAbout(nothing));
        assert.equal(known.status, 404);
      });
    }
  }

  const publishing = calls.filter(({ isPublishing }) => isPublishing);
  for (const call of publishing)
    it(`${call.name}: answers 403 without its scope, the same for every client token, also if the account has the scope`, async () => {
      const narrow = await newToken(h, { ...both, scopes: ['push_notifications'] });
      const of = (client_token: string, token: string) => ask(call, { ...mine, client_token }, bearer(token));
      const refused = await of('SITE-of-nobody', owner.token);
      assert.equal(refused.status, 403);
      assert.match(refused.headers['www-authenticate'] ?? '', /error="insufficient_scope"/);
      for (const client_token of [mine.client_token, theirs.client_token, 'no token!'])
        for (const token of [owner.token, narrow]) assert.deepEqual(await of(client_token, token), refused);
    });

  it('has changed nothing where it was refused', async () => {
    assert.deepEqual(await everything(h), there);
  });

  for (const call of publishing)
    it(`${call.name}: answers that a client of nobody and a deleted one are unknown`, async () => {
      const of = (client_token: string) => ask(call, { ...mine, client_token }, bearer(platform.token));
      const unknown = await of(nothing.client_token);
      assert.deepEqual([unknown.status, unknown.body.code], [404, 'unknown_client']);
      assert.deepEqual(await of(gone.client_token), unknown);
    });

  const isForgetting = ({ path, method }: Call) => path.startsWith('/assets') && method === 'delete';
  /** What a call is about is there: nothing is forgotten before it is asked for, and a request is made before it is shown. */
  const order = (call: Call) =>
    isForgetting(call) ? 2 : Number(call.name === 'GET /push_notifications/url_request');
  const inOrder = calls.toSorted((one, other) => order(one) - order(other));
  for (const call of inOrder.filter(({ needsToken }) => needsToken)) {
    it(`${call.name}: is answered to the owner`, async () => {
      await owner.forgetSends();
      const { status, body } = await ask(call, mine, bearerFor(call));
      const success = Number(Object.keys(call.operation.responses)[0]);
      // The client has its one URL: the first answer that only the owner gets.
      assert.equal(status, call.isRegistration ? 400 : success, JSON.stringify(body));
      if (call.isRegistration) assert.equal(body.code, 'already_registered');
    });
  }

  it('is in the audit if it reads a secret, changes or sends something, and was not refused: by whom, from where, about what', async () => {
    const done = await listCalls(h.db, [owner.account_id]);
    const first = 'first token of the day';
    const [url, since] = [{ url: new URL(receiver.url).origin }, { since: '2026-01-01T00:00:00.000Z' }];
    const ofNotices = ` notices:${owner.account_id}`;
    assert.deepEqual(
      Object.fromEntries(
        done.map(({ what, clientToken, about }) => [
          `${what} ${clientToken}`.replace(owner.client_token, '').trim(),
          about,
        ]),
      ),
      {
        'client set': { quiet_seconds: 0 },
        console: { access: 'full' },
        [first]: { client_id: owner.client_id },
        [`notices url removed${ofNotices}`]: url,
        [`notices url set${ofNotices}`]: url,
        'notification dismiss': { ...since, reason: 'sent by hand' },
        'notification recover': since,
        'notification redeliver': { notification_id: mine.id },
        'notification replay': since,
        registration: url,
        'registration check': url,
        'registration request': { ...url, reason: 'we have moved' },
        'registration resume': {},
        'registration test': url,
        'request headers set': { header_names: [] },
        'secrets rotate': {},
        [`secrets rotate${ofNotices}`]: {},
        'signing secret read': {},
        [`signing secret read${ofNotices}`]: {},
      },
    );
    const fingerprint = hash('sha256', owner.token).slice(0, 12);
    for (const { what, address, tokenFingerprint } of done)
      assert.deepEqual([address, tokenFingerprint], ['127.0.0.1', what === first ? '' : fingerprint], what);
    const ofStranger = await listCalls(h.db, [stranger.account_id]);
    assert.deepEqual(ofStranger.map(({ what }) => what).sort(), [first, 'registration']);
  });

  it('needs the scope signing_secrets once the account has it if it reads or rotates a secret, or sets headers or a notices URL; no other call does', async () => {
    const guarded = [
      'GET /push_notifications/signing_secret',
      'POST /push_notifications/signing_secret',
      'PUT /push_notifications/headers',
      'PUT /notices',
      'DELETE /notices',
      'GET /notices/signing_secret',
      'POST /notices/signing_secret',
    ];
    const customer = await newCustomer(h, ['push_notifications', 'signing_secrets']);
    const subject = await withNotification(customer, 'vid-guarded');
    const lesser = await newToken(h, { ...customer, scopes: ['push_notifications'] });
    for (const call of calls.filter(({ needsToken, isPublishing }) => needsToken && !isPublishing)) {
      await customer.forgetSends();
      const { status, headers, body } = await ask(call, subject, bearer(lesser));
      const isRefused = guarded.includes(call.name);
      const code = isRefused ? 'insufficient_scope' : undefined;
      assert.equal(status === 403 ? body.code : undefined, code, call.name);
      const says = 'Bearer error="insufficient_scope", scope="signing_secrets"';
      assert.equal(headers['www-authenticate'], isRefused ? says : undefined);
      await customer.forgetSends();
      assert.notEqual((await ask(call, subject, bearer(customer.token))).status, 403, call.name);
    }
  });
});
