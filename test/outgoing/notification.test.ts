import assert from 'node:assert/strict';
import fc from 'fast-check';
import { Webhook } from 'standardwebhooks';
import {
  hidden,
  isReservedHeader,
  notificationRequest,
  sign,
  userAgent,
  withoutValues,
} from '../../src/outgoing/notification.js';
import { newSigningSecret } from '../../src/redis/records/secrets.js';

const platformId = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 256 });
const id = fc.stringMatching(/^[A-Za-z0-9_-]{1,64}$/);

describe('notification: signature', () => {
  it('is accepted by the public library, with each of the secrets in use', () => {
    fc.assert(
      fc.property(platformId, id, fc.integer({ min: 1, max: 3 }), (asset, notificationId, count) => {
        const secrets = Array.from({ length: count }, newSigningSecret);
        const { headers, body } = notificationRequest(
          { notificationId, clientToken: 'SITE0042', platformId: asset },
          secrets,
          Date.now(),
        );
        for (const secret of secrets) {
          assert.deepEqual(new Webhook(secret).verify(body, headers), {
            event: 'asset-update',
            platform_id: asset,
          });
        }
        assert.throws(() => new Webhook(newSigningSecret()).verify(body, headers));
        assert.throws(() => new Webhook(secrets[0] ?? '').verify(`${body} `, headers));
      }),
    );
  });

  it('equals that of the public library', () => {
    fc.assert(
      fc.property(
        fc.string(),
        id,
        fc.uint8Array({ minLength: 24, maxLength: 64 }),
        (body, messageId, key) => {
          const secret = `whsec_${Buffer.from(key).toString('base64')}`;
          const expected = new Webhook(secret).sign(messageId, new Date(1_700_000_000_000), body);
          assert.equal(sign([secret], messageId, 1_700_000_000, body), expected);
        },
      ),
    );
  });

  it('needs a secret that is not empty', () => {
    assert.throws(() => sign(['whsec_'], 'a', 1, '{}'), /empty/);
  });

  it('uses new secrets of 32 bytes', () => {
    const secret = newSigningSecret();
    assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    assert.notEqual(secret, newSigningSecret());
  });
});

describe('notification: request', () => {
  const made = notificationRequest(
    { notificationId: 'n-1', clientToken: 'SITE0042', platformId: 'a "quoted" \u2028 id' },
    [newSigningSecret()],
    1_700_000_000_999,
  );

  it('has exactly the headers of the contract, in its order', () => {
    assert.deepEqual(Object.keys(made.headers), [
      'content-type',
      'user-agent',
      'webhook-id',
      'webhook-timestamp',
      'webhook-signature',
      'webhook-client-token',
    ]);
    assert.equal(made.headers['content-type'], 'application/json');
    assert.equal(made.headers['user-agent'], userAgent);
    assert.match(userAgent, /^asset-update-service\/\d+\.\d+\.\d+/);
    assert.equal(made.headers['webhook-timestamp'], '1700000000');
  });

  it('has exactly two members in its body, in this order', () => {
    assert.equal(
      made.body,
      `{"event":"asset-update","platform_id":${JSON.stringify('a "quoted" \u2028 id')}}`,
    );
    const test = notificationRequest(
      { notificationId: 'n', clientToken: 'c', platformId: 'test', event: 'test' },
      [newSigningSecret()],
      Date.now(),
    );
    assert.equal(test.body, '{"event":"test","platform_id":"test"}');
  });
});

describe('request headers of a client’s own', () => {
  const own = { authorization: 'Bearer gate-7f3a91', 'x-gateway-key': 'open sesame 42', 'x-env': 'eu' };

  it('include none that the service sets', () => {
    const { headers } = notificationRequest(
      { notificationId: 'msg_1', clientToken: 'SITE', platformId: 'vid' },
      ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
      0,
    );
    for (const name of [
      ...Object.keys(headers),
      'content-length',
      'host',
      'connection',
      'Webhook-Anything',
      'Traceparent',
    ]) {
      assert.ok(isReservedHeader(name), name);
    }
    for (const name of [
      'Authorization',
      'X-Gateway-Key',
      'apikey',
      'Ocp-Apim-Subscription-Key',
      'CF-Access-Client-Id',
    ]) {
      assert.equal(isReservedHeader(name), false, name);
    }
  });

  it('are shown only by name', () => {
    assert.deepEqual(hidden(own), { authorization: '***', 'x-gateway-key': '***', 'x-env': '***' });
  });

  it('have no value in a page that shows the request', () => {
    for (const [text, safe] of [
      ['{"authorization":"Bearer gate-7f3a91"}', '{"authorization":"***"}'],
      ['Bearer token gate-7f3a91 is not valid', 'Bearer token *** is not valid'],
      ['x-gateway-key: open sesame 42, again open sesame 42', 'x-gateway-key: ***, again ***'],
      ['cut off: Bearer gate-7f', 'cut off: ***'],
      ['cut off: gate', 'cut off: ***'],
      ['the value eu is in Neuilly', 'the value eu is in Neuilly'],
      ['upstream is away', 'upstream is away'],
    ] as const) {
      assert.equal(withoutValues(text, own), safe);
    }
    assert.equal(withoutValues('as it is', {}), 'as it is');
  });
});
