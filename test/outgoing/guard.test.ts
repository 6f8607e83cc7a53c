import assert from 'node:assert/strict';
import type { TargetPolicy } from '../../src/outgoing/address.js';
import type { Lookup } from '../../src/outgoing/names.js';
import type { PostResult } from '../../src/outgoing/post.js';
import { checkTarget } from '../../src/outgoing/target.js';
import { forTest } from '../servers.js';
import { answering, namesBy } from './dnsServer.js';
import { loopbackPolicy, requestTo, useNetwork } from './rawReceiver.js';

/** http is allowed, so that nothing but the address can be what refuses. */
const publicOnly: TargetPolicy = { allowHttp: true, allowedCidrs: [], ownPorts: [] };

describe('outgoing guard: at connect time', () => {
  const { startQuick, sending } = useNetwork();
  const receiver = forTest(() => startQuick());

  afterEach(() => assert.equal(receiver.accepted(), 0, 'nothing may get through'));

  const post = (url: string, policy = publicOnly, lookup?: Lookup): Promise<PostResult> =>
    sending({ policy, names: lookup && namesBy(lookup) }).post(requestTo(url));

  const assertBlocked = ({ ok, error, remoteAddress }: PostResult): void =>
    assert.deepEqual([ok, error, remoteAddress], [false, 'blocked_address', undefined]);

  // Every spelling of an address is tested with address.ts, of a host with target.ts.
  for (const host of ['127.0.0.1', '0x7f000001', '①②⑦.0.0.1', 'LOCALHOST.', '[::1]', '[::ffff:7f00:1]']) {
    it(`blocks ${host}`, async () => {
      for (const scheme of ['http', 'https'])
        assertBlocked(await post(`${scheme}://${host}:${receiver.port}/`));
    });
  }

  it('blocks a name with a private address among public ones', async () => {
    const url = `http://hooks.example:${receiver.port}/`;
    for (const order of [
      ['93.184.216.34', '::1'],
      ['127.0.0.1', '93.184.216.34'],
    ])
      assertBlocked(await post(url, publicOnly, answering(order)));
  });

  it('blocks a name that changes its answer between the check and the connection', async () => {
    const lookup = answering(['93.184.216.34'], ['127.0.0.1']);
    const url = `http://hooks.example:${receiver.port}/`;
    await checkTarget(url, publicOnly, lookup);
    assertBlocked(await post(url, publicOnly, lookup));
  });

  it('blocks a name that leads to one of the service’s own names after the check', async () => {
    const policy = { ...loopbackPolicy, ownAddresses: ['api.example.com'] };
    const hooks = ['93.184.216.34', '127.0.0.9'];
    const lookup: Lookup = async (name) => [
      { address: name === 'api.example.com' ? '127.0.0.9' : String(hooks.shift()), family: 4 },
    ];
    const url = `http://hooks.example:${receiver.port}/`;
    await checkTarget(url, policy, lookup);
    assertBlocked(await post(url, policy, lookup));
    assertBlocked(await post(`http://127.0.0.9:${receiver.port}/`, policy, lookup));
  });

  it('blocks the last known addresses of the service’s own names, while their name servers answer with an error', async () => {
    const policy = { ...loopbackPolicy, ownAddresses: ['api.example.com'] };
    let isAway = false;
    const lookup: Lookup = async (name) => {
      if (isAway && name === 'api.example.com')
        throw Object.assign(new Error('SERVFAIL'), { code: 'ESERVFAIL' });
      return [{ address: '127.0.0.9', family: 4 }];
    };
    const sender = sending({ policy, names: namesBy(lookup) });
    const to = requestTo(`http://hooks.example:${receiver.port}/`);
    assertBlocked(await sender.post(to));
    isAway = true;
    const now = performance.now;
    try {
      // They are asked once a minute.
      performance.now = () => now.call(performance) + 61_000;
      assertBlocked(await sender.post(to));
    } finally {
      performance.now = now;
    }
  });

  it('blocks the ports of the service in an allowed range, in every spelling', async () => {
    const policy = { ...loopbackPolicy, ownPorts: [receiver.port] };
    for (const host of ['127.0.0.1', '127.8.8.8', '[::ffff:127.0.0.1]', 'localhost', '2130706433'])
      assertBlocked(await post(`http://${host}:${receiver.port}/`, policy));
    const named = answering(['127.0.0.1']);
    assertBlocked(await post(`http://hooks.example:${receiver.port}/`, policy, named));
  });

  it('blocks http if it is not allowed, and other schemes', async () => {
    const httpsOnly = { ...loopbackPolicy, allowHttp: false };
    assertBlocked(await post(receiver.url, httpsOnly));
    assertBlocked(await post(`ftp://127.0.0.1:${receiver.port}/`, loopbackPolicy));
    assertBlocked(await post('file:///etc/passwd', loopbackPolicy));
  });
});
