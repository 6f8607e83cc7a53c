import assert from 'node:assert/strict';
import {
  hidden,
  isReservedHeader,
  notificationRequest,
  withoutValues,
} from '../../src/outgoing/notification.js';

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
