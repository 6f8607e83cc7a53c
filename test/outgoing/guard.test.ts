import assert from 'node:assert/strict';
import type { TargetPolicy } from '../../src/outgoing/address.js';
import type { Lookup } from '../../src/outgoing/names.js';
import { createSender, type PostResult } from '../../src/outgoing/post.js';
import { checkTarget } from '../../src/outgoing/target.js';
import { namesBy } from './dnsServer.js';
import { loopbackPolicy, type RawReceiver, startRawReceiver } from './rawReceiver.js';

/** http is allowed, so that nothing but the address can be what refuses. */
const publicOnly: TargetPolicy = { allowHttp: true, allowedCidrs: [], ownPorts: [] };

const answering =
  (...answers: string[][]): Lookup =>
  async () => {
    const addresses = answers.length > 1 ? answers.shift() : answers[0];
    return (addresses ?? []).map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
  };

describe('outgoing guard: at connect time', () => {
  let receiver: RawReceiver;

  beforeEach(async () => {
    receiver = await startRawReceiver({ answer: (s) => s.write('HTTP/1.1 204 OK\r\n\r\n') });
  });

  afterEach(async () => {
    assert.equal(receiver.accepted(), 0, 'nothing may get through');
    await receiver.close();
  });

  const post = async (url: string, policy = publicOnly, lookup?: Lookup): Promise<PostResult> => {
    const sender = createSender({ policy, timeoutMs: 5_000, names: lookup && namesBy(lookup) });
    const result = await sender.post({ url, client: 'SITE0042', headers: {}, body: '{}' });
    await sender.close();
    return result;
  };

  const assertBlocked = (result: PostResult): void => {
    assert.deepEqual(
      { ...result, milliseconds: 0 },
      {
        ok: false,
        error: 'blocked_address',
        detail: result.detail,
        milliseconds: 0,
      },
    );
  };

  const forms = [
    ...[
      '127.0.0.1',
      '2130706433',
      '0177.0.0.1',
      '0x7f.0.0.1',
      '0x7f000001',
      '017700000001',
      '127.1',
      '127.0.0.1.',
    ],
    ...[
      '①②⑦.0.0.1',
      '127。0。0。1',
      '%31%32%37.0.0.1',
      '0',
      '0.0.0.0',
      'localhost',
      'LOCALHOST',
      'localhost.',
    ],
    ...[
      '[::1]',
      '[::]',
      '[::ffff:127.0.0.1]',
      '[::ffff:7f00:1]',
      '[0:0:0:0:0:ffff:127.0.0.1]',
      '[::127.0.0.1]',
    ],
    ...['[64:ff9b::127.0.0.1]', '[64:ff9b:1::7f00:1]', '[2002:7f00:1::]', '[2001:0:808:808::80ff:fffe]'],
  ];
  for (const host of forms) {
    for (const scheme of ['http', 'https']) {
      it(`blocks ${scheme}://${host}`, async () => {
        assertBlocked(await post(`${scheme}://${host}:${receiver.port}/`));
      });
    }
  }

  it('blocks a name with a private address among public ones', async () => {
    const url = `http://hooks.example:${receiver.port}/`;
    for (const inner of ['127.0.0.1', '::1', '::ffff:127.0.0.1', '64:ff9b::127.0.0.1', '2002:7f00:1::']) {
      assertBlocked(await post(url, publicOnly, answering(['93.184.216.34', inner])));
      assertBlocked(await post(url, publicOnly, answering([inner, '93.184.216.34'])));
    }
  });

  it('blocks a name that changes its answer between the check and the connection', async () => {
    const lookup = answering(['93.184.216.34'], ['127.0.0.1']);
    const url = `http://hooks.example:${receiver.port}/`;
    await checkTarget(url, publicOnly, { lookup });
    assertBlocked(await post(url, publicOnly, lookup));
  });

  it('blocks the ports of the service in an allowed range, in every spelling', async () => {
    const policy = { ...loopbackPolicy, ownPorts: [receiver.port] };
    for (const host of ['127.0.0.1', '127.8.8.8', '[::ffff:127.0.0.1]', 'localhost', '2130706433']) {
      const result = await post(`http://${host}:${receiver.port}/`, policy);
      assertBlocked(result);
    }
    const named = answering(['127.0.0.1']);
    assertBlocked(await post(`http://hooks.example:${receiver.port}/`, policy, named));
  });

  it('blocks http if it is not allowed, and other schemes', async () => {
    const httpsOnly = { ...loopbackPolicy, allowHttp: false };
    assertBlocked(await post(receiver.url, httpsOnly));
    assertBlocked(await post(`ftp://127.0.0.1:${receiver.port}/`, loopbackPolicy));
    assertBlocked(await post('file:///etc/passwd', loopbackPolicy));
  });

  it('does not follow a redirect into a private network', async () => {
    const inside = receiver;
    for (const status of [301, 302, 303, 307, 308]) {
      const outside = await startRawReceiver({
        answer: (s) =>
          s.write(
            `HTTP/1.1 ${status} There\r\nlocation: http://127.0.0.1:${inside.port}/\r\ncontent-length: 0\r\n\r\n`,
          ),
      });
      const result = await post(outside.url, loopbackPolicy);
      await outside.close();
      assert.equal(result.error, 'redirect');
      assert.equal(result.status, status);
    }
  });
});
