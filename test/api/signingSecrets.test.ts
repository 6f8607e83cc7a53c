import assert from 'node:assert/strict';
import { setScopes } from '../../src/redis/records/accounts.js';
import { previousSigningSecretsAtMost } from '../../src/redis/records/secrets.js';
import { newCustomer, newToken, type RunningApi, sharedApi } from '../service.js';
import { mintedToken } from './credentials.js';

type Customer = Awaited<ReturnType<typeof newCustomer>>;

describe('GET and POST /push_notifications/signing_secret', () => {
  let api: RunningApi;
  before(async () => {
    api = await sharedApi();
  });

  const call = (method: 'GET' | 'POST', { client_token }: Customer, token: string) =>
    fetch(`${api.url}/push_notifications/signing_secret?client_token=${client_token}`, {
      method,
      headers: { authorization: `Bearer ${token}` },
    });
  const read = async (answer: Response) => (await answer.json()) as Record<string, string>;

  it('POST answers 429 with Retry-After while ten previous ones still sign, and loses no secret', async () => {
    const customer = await newCustomer(api);
    const token = await newToken(api, customer);
    const made = [(await read(await call('GET', customer, token))).signing_secret];
    for (let i = 0; i < previousSigningSecretsAtMost; i++) {
      const rotated = await call('POST', customer, token);
      assert.equal(rotated.status, 200);
      made.push((await read(rotated)).signing_secret);
    }
    const refused = await call('POST', customer, token);
    assert.deepEqual([refused.status, (await read(refused)).code], [429, 'too_many_requests']);
    const waitSeconds = Number(refused.headers.get('retry-after'));
    assert.ok(waitSeconds > 23 * 3600 && waitSeconds <= 24 * 3600, String(waitSeconds));
    assert.equal((await read(await call('GET', customer, token))).signing_secret, made.at(-1));
  });

  describe('the scope signing_secrets', () => {
    const both = ['push_notifications', 'signing_secrets'];

    for (const method of ['GET', 'POST'] as const) {
      it(`${method} answers 403 insufficient_scope to a token without it, and 200 to one with it, if the account has it`, async () => {
        const customer = await newCustomer(api, both);
        const without = await mintedToken(api.deps.db, customer, ['push_notifications'], 60);
        const refused = await call(method, customer, without);
        assert.deepEqual([refused.status, (await read(refused)).code], [403, 'insufficient_scope']);
        assert.equal(
          refused.headers.get('www-authenticate'),
          'Bearer error="insufficient_scope", scope="signing_secrets"',
        );
        const withIt = await mintedToken(api.deps.db, customer, ['signing_secrets'], 60);
        assert.equal((await call(method, customer, withIt)).status, 200);
      });
    }

    it('earlier tokens lose only this right when the account gets the scope', async () => {
      const customer = await newCustomer(api);
      const token = await newToken(api, customer);
      await setScopes(api.deps.db, customer.account_id, both);
      assert.equal((await call('GET', customer, token)).status, 403);
      const clients = await fetch(`${api.url}/clients`, { headers: { authorization: `Bearer ${token}` } });
      assert.equal(clients.status, 200);
    });
  });
});
