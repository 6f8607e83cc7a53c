import assert from 'node:assert/strict';
import { createClient } from '../../src/redis/records/clients.js';
import { previousSigningSecretsAtMost } from '../../src/redis/records/secrets.js';
import { type Json, newCustomer } from '../service.js';
import { publisherScene } from './publisherScene.js';

describe('clients and their URL', () => {
  const { h, receiver, customer, call, read, register, delivered } = publisherScene();

  it('GET /clients lists the account’s clients, and no other', async () => {
    await newCustomer(h);
    const one = { client_token: customer.client_token, name: 'Example Site' };
    const clients = [{ ...one, state: 'not_registered', owed: 0 }];
    assert.deepEqual(await read('/clients'), { clients, has_more: false });
    await register();
    const registered = [{ ...one, state: 'active', url: receiver.url, owed: 0 }];
    assert.deepEqual(await read('/clients'), { clients: registered, has_more: false });
  });

  it('GET /clients lists every client once, by client token, 50 by default, also while clients come and go', async () => {
    const { account_id: accountId } = customer;
    const create = (clientToken: string) => createClient(h.db, { accountId, name: 'Site', clientToken });
    const names = Array.from({ length: 55 }, (_, i) => `page-${accountId}-${String(i).padStart(2, '0')}`);
    for (const clientToken of names) await create(clientToken);
    const seen: string[] = [];
    const sizes: number[] = [];
    for (let query = '?limit=5'; query !== ''; ) {
      const { clients, next_cursor: cursor } = await read(`/clients${query}`);
      const tokens = (clients as Json[]).map(({ client_token }) => String(client_token));
      sizes.push(tokens.length);
      seen.push(...tokens);
      query = cursor === undefined ? '' : `?cursor=${cursor}`;
      const { status } = await (await newCustomer(h)).call('GET', `/clients${query}`);
      assert.equal(status, query === '' ? 200 : 400, 'a cursor of another account');
      // In front of the cursor: it moves nothing that is still to come.
      await create(`0${seen.length}-${accountId}`);
    }
    assert.deepEqual(sizes, [5, 50, 1]);
    assert.deepEqual(seen, [customer.client_token, ...names].sort());
  });

  it('GET /push_notifications answers 404 when nothing is registered, then the registration and its state', async () => {
    assert.equal((await read('/push_notifications')).code, 'not_registered');
    await register();
    await delivered('vid-1');
    const shown = await read('/push_notifications');
    const { registered_at: at, last_success_at: last, delivered_until: arrived, ...rest } = shown;
    assert.ok(Date.parse(String(arrived)) >= Date.parse(String(at)));
    assert.ok(Date.parse(String(at)) <= Date.parse(String(last)));
    assert.deepEqual(rest, {
      url: receiver.url,
      state: 'active',
      state_since: at,
      state_reason: 'registered',
      owed_since: null,
      owed: 0,
      failed: 0,
      cancelled: 0,
      replay: null,
      quiet_seconds: 0,
      last_failure_at: null,
      last_error: null,
      last_detail: null,
      next_attempt_at: null,
    });
  });

  const secretPath = '/push_notifications/signing_secret';

  it('POST /push_notifications/signing_secret answers 429 with Retry-After while ten previous ones still sign, and loses no secret', async () => {
    await read(secretPath);
    let last: unknown;
    for (let i = 0; i < previousSigningSecretsAtMost; i++)
      last = (await call('POST', secretPath)).body.signing_secret;
    const refused = await call('POST', secretPath);
    assert.deepEqual([refused.status, refused.body.code], [429, 'too_many_requests']);
    const waitSeconds = Number(refused.headers.get('retry-after'));
    assert.ok(waitSeconds > 23 * 3600 && waitSeconds <= 24 * 3600, String(waitSeconds));
    assert.equal((await read(secretPath)).signing_secret, last);
  });

  it('POST /push_notifications/test sends to the registered URL, answers the request and its result, and is limited to bursts of 8', async () => {
    await register();
    const test = () => call('POST', '/push_notifications/test');
    const { body } = await test();
    const [got] = receiver.received;
    assert.equal(got?.body, '{"event":"test","platform_id":"test"}');
    const request = body.request as { headers: Record<string, string>; body: string };
    assert.equal(request.body, got?.body);
    assert.equal(request.headers['webhook-id'], got?.headers['webhook-id']);
    assert.deepEqual([body.status, typeof body.milliseconds], [200, 'number']);
    assert.equal((await read('/push_notifications')).last_success_at, null);
    receiver.answer = () => 302;
    const failed = (await test()).body;
    assert.deepEqual([failed.status, failed.error], [302, 'redirect']);
  });
});
