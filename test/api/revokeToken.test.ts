import assert from 'node:assert/strict';
import { listCalls } from '../../src/redis/records/audit.js';
import { newCustomer, newToken, type RunningApi, sharedApi } from '../service.js';

describe('POST /oauth/revoke', () => {
  let api: RunningApi;
  let account: Awaited<ReturnType<typeof newCustomer>>;

  before(async () => {
    api = await sharedApi();
    account = await newCustomer(api);
  });

  const revoke = (fields: Record<string, string>, by = account) =>
    fetch(`${api.url}/oauth/revoke`, {
      method: 'POST',
      body: new URLSearchParams({ client_id: by.client_id, client_secret: by.client_secret, ...fields }),
    });
  const works = async (token: string) =>
    (await fetch(`${api.url}/clients`, { headers: { authorization: `Bearer ${token}` } })).status === 200;
  const entries = async () =>
    (await listCalls(api.deps.db))
      .filter(({ accountId, what }) => accountId === account.account_id && what === 'access token revoked')
      .map(({ tokenFingerprint }) => tokenFingerprint);

  it('ends the token immediately, and no other, and is in the audit once', async () => {
    const [token, other] = [await newToken(api, account), await newToken(api, account)];
    const answer = await revoke({ token, token_type_hint: 'access_token' });
    assert.deepEqual([answer.status, await answer.json()], [200, {}]);
    assert.equal(answer.headers.get('cache-control'), 'no-store');
    assert.deepEqual([await works(token), await works(other)], [false, true]);
    assert.equal((await revoke({ token })).status, 200);
    assert.equal((await entries()).length, 1);
  });

  it('answers 200 for an unknown token and one of another account, which stays valid', async () => {
    const stranger = await newCustomer(api);
    const token = await newToken(api, stranger);
    const before = await entries();
    for (const given of ['unknown', token]) assert.equal((await revoke({ token: given })).status, 200);
    assert.equal(await works(token), true);
    assert.deepEqual(await entries(), before);
  });

  it('refuses as POST /oauth/access_token does: wrong credentials, a missing field, packed bodies', async () => {
    const token = await newToken(api, account);
    const refused = async (answer: Promise<Response>) => {
      const { status } = await answer;
      return [status, ((await (await answer).json()) as { error: string }).error];
    };
    assert.deepEqual(await refused(revoke({ token, client_secret: 'wrong' })), [401, 'invalid_client']);
    assert.deepEqual(await refused(revoke({})), [400, 'invalid_request']);
    const packed = fetch(`${api.url}/oauth/revoke`, {
      method: 'POST',
      body: new URLSearchParams({ token }),
      headers: { 'content-encoding': 'gzip' },
    });
    assert.deepEqual(await refused(packed), [415, 'invalid_request']);
    assert.equal(await works(token), true);
    const statuses: number[] = [];
    for (let i = 0; i < 12; i++) statuses.push((await revoke({ token, client_secret: 'wrong' })).status);
    assert.ok(statuses.includes(429));
  });
});
