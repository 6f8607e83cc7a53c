import assert from 'node:assert/strict';
import { isReservedHeader } from '../../src/acts/secrets.js';
import { hidden, withoutValues } from '../../src/outgoing/hidden.js';
import { sign } from '../../src/outgoing/notification.js';
import { newSigningSecret } from '../../src/redis/records/secrets.js';

describe('notification: signature', () => {
  it('needs a secret that is not empty', () => {
    assert.throws(() => sign(['whsec_'], 'a', 1, '{}'), /empty/);
  });

  it('uses new secrets of 32 bytes', () => {
    const secret = newSigningSecret();
    assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    assert.notEqual(secret, newSigningSecret());
  });
});

describe('request headers of a client’s own', () => {
  const own = { authorization: 'Bearer gate-7f3a91', 'x-gateway-key': 'open sesame 42', 'x-env': 'eu' };

  it('include none that the service sets', () => {
    const ofService = ['webhook-id', 'webhook-signature', 'user-agent', 'content-type', 'content-length'];
    for (const name of [...ofService, 'host', 'connection', 'Webhook-Anything', 'Traceparent'])
      assert.ok(isReservedHeader(name), name);
    for (const name of ['Authorization', 'X-Gateway-Key', 'apikey', 'Ocp-Apim-Subscription-Key'])
      assert.equal(isReservedHeader(name), false, name);
  });

  it('are shown only by name', () => {
    assert.deepEqual(hidden(own), { authorization: '***', 'x-gateway-key': '***', 'x-env': '***' });
  });

  it('have no value in a page that shows the request, and the URL no path or query', () => {
    const url = 'https://hooks.example/in/site-42?token=a%2Fsecret&gate-7f3a91-too&v=2';
    for (const [text, safe] of [
      ['POST:/in/site-42?token=a%2Fsecret&gate-7f3a91-too&v=2 not found', 'POST:***?*** not found'],
      ['{"url":"/in/site-42","in":"a/secret","raw":"a%2Fsecret"}', '{"url":"***","in":"***","raw":"***"}'],
      [
        '{"message":"The route in\\/site-42 could not be found."}',
        '{"message":"The route *** could not be found."}',
      ],
      ['No POST of in/site-42, token a\\/secret', 'No POST of ***, token ***'],
      ['Cannot POST /site-42, behind a proxy', 'Cannot POST ***, behind a proxy'],
      ['gate-7f3a91-too is not valid', '*** is not valid'],
      ['cut off: /in/site-42?token=a%2Fse', 'cut off: ***?***'],
      ['{"authorization":"Bearer gate-7f3a91"}', '{"authorization":"***"}'],
      ['Bearer token gate-7f3a91 is not valid', 'Bearer token *** is not valid'],
      ['x-gateway-key: open sesame 42, again open sesame 42', 'x-gateway-key: ***, again ***'],
      ['cut off: Bearer gate-7f', 'cut off: ***'],
      ['cut off: gate', 'cut off: ***'],
      ['the value eu is in Neuilly', 'the value eu is in Neuilly'],
      ['upstream is away', 'upstream is away'],
    ] as const) {
      assert.equal(withoutValues(text, url, own), safe);
    }
    const keyed = 'https://hooks.example/webhook/5f2c9d1a-77aa/in';
    for (const text of ['webhook "POST 5f2c9d1a-77aa" is not known', 'use 5f2c9d1a-77aa/in'])
      assert.doesNotMatch(withoutValues(text, keyed, {}), /5f2c/);
    assert.equal(withoutValues('no webhook came in', keyed, {}), 'no webhook came in');
    assert.equal(withoutValues('as / it is', 'https://hooks.example/', {}), 'as / it is');
    assert.equal(withoutValues('no /a key/%zz', 'https://hooks.example/v1/a%20key/%zz', {}), 'no ***');
  });

  it('have no value in a page that escapes it in any usual way, wherever the page is cut off', () => {
    const value = `s3cr+e/t="&'<x>~, y_%\\z`;
    const codeOf = (c: string, radix = 16) => c.charCodeAt(0).toString(radix);
    for (const escaped of [
      (c: string) => c,
      (c: string) => (c === '/' || c === '"' ? `\\${c}` : c),
      (c: string) => `\\u00${codeOf(c)}`,
      (c: string) => `%${codeOf(c)}`,
      (c: string) => `&#x${codeOf(c)};`,
      (c: string) => `&#${codeOf(c, 10)};`,
      (c: string) => c.replace('&', '&amp;').replace('"', '&quot;'),
    ]) {
      const page = value.replace(/[^a-z\d]/g, escaped);
      const query = encodeURIComponent(value);
      for (let end = 4; end <= page.length; end++)
        for (const [url, headers] of [
          ['https://hooks.example/', { 'x-key': value }],
          ['https://hooks.example/', { authorization: `Basic ${btoa(`me:${value}`)}` }],
          [`https://hooks.example/in?key=${query}`, {}],
          [`https://hooks.example/${query}`, {}],
        ] as const)
          assert.equal(withoutValues(`No ${page.slice(0, end)}`, url, headers), 'No ***');
      // What is no part of a value keeps the escapes of its invisible characters.
      const controls = '%1b \\u001b &#27; &#x7f; %c3%a9';
      assert.equal(
        withoutValues(`${page}; ${controls}`, 'https://hooks.example/', { 'x-key': value }),
        `***; ${controls}`,
      );
    }
  });
});
