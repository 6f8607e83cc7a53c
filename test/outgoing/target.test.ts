import assert from 'node:assert/strict';
import type { TargetPolicy } from '../../src/outgoing/address.js';
import { AttemptFailed } from '../../src/outgoing/failures.js';
import type { Lookup } from '../../src/outgoing/names.js';
import {
  checkTarget,
  checkTargetForm,
  ResolverUnavailable,
  type TargetRefusal,
  TargetRefused,
} from '../../src/outgoing/target.js';
import { answering } from './dnsServer.js';

const publicOnly: TargetPolicy = { allowHttp: false, allowedCidrs: [], ownPorts: [3000] };
const local: TargetPolicy = { allowHttp: true, allowedCidrs: ['127.0.0.0/8', '::1/128'], ownPorts: [3000] };

const refusedForms: [TargetRefusal, string[], TargetPolicy?][] = [
  ['not_absolute', ['', 'example.com', '/hook', 'https:', 'https:example.com', 'https:\\\\example.com']],
  ['not_absolute', ['https://example.com\\@10.0.0.1/', 'https://exa mple.com/', ' https://example.com/']],
  ['not_absolute', ['https://example.com/\n', 'ht\ttps://example.com/', 'https://[::1/', 'https://?a']],
  [
    'not_absolute',
    ['https://example.com/\u202egpj.', 'https://example.com/\u2028', 'https://example.com/\ud800'],
  ],
  ['not_absolute', ['https://[fe80::1%25eth0]/', 'https://example.com:99999/']],
  ['scheme', ['http://example.com/', 'ftp://example.com/', 'file://host/etc/passwd']],
  ['scheme', ['javascript://x', 'wss://a.b/']],
  ['too_long', [`https://example.com/${'a'.repeat(2_029)}`, `https://example.com?${'ü'.repeat(338)}`]],
  ['credentials', ['https://user:password@example.com/', 'https://user@example.com/']],
  ['credentials', ['https://@example.com/', 'https://:p@a.b/']],
  ['fragment', ['https://example.com/#a', 'https://example.com/#', 'https://example.com/?a#b']],
  ['not_public', ['https://127.0.0.1/', 'https://2130706433/', 'https://127.1/', 'https://127.0.0.1./']],
  ['not_public', ['https://①②⑦.0.0.1/', 'https://%31%32%37.0.0.1/', 'https://10.1:8443/']],
  ['not_public', ['https://[::1]/', 'https://[::ffff:7f00:1]/']],
  ['scheme', ['ftp://example.com/'], local],
  ['own_address', ['http://127.0.0.1:3000/', 'http://[::1]:3000/', 'http://0x7f.1:3000/'], local],
];

const failing =
  (code: string): Lookup =>
  async () => {
    throw Object.assign(new Error(code), { code });
  };

const refusedAs = (reason: TargetRefusal) => (error: unknown) => {
  assert.ok(error instanceof TargetRefused);
  assert.equal(error.reason, reason);
  return true;
};

describe('registration: the url', () => {
  for (const [reason, urls, policy = publicOnly] of refusedForms) {
    for (const url of urls) {
      it(`is refused as ${reason}: ${JSON.stringify(url.slice(0, 60))}`, () => {
        assert.throws(() => checkTargetForm(url, policy), refusedAs(reason));
      });
    }
  }

  it('is refused where a request would go elsewhere, in every spelling of a repair', () => {
    const cased = (text: string) => [text, text.replace('%2e', '%2E')];
    const dots = ['.', '%2e', '..', '.%2e', '%2e.', '%2e%2e'].flatMap(cased);
    const places = (dot: string) => [
      `/${dot}`,
      `/${dot}/`,
      `/a/${dot}`,
      `/a/${dot}/b`,
      `//${dot}/b`,
      `/a/b/${dot}?q=1`,
    ];
    const numbers = ['134744072', '0x08080808', '8.8.2056', '010.8.8.8', '8.8.8.8.', '0x8.8.8.8', '8.526344'];
    const encoded = ['%65xample.com', 'ex%61mple.com'];
    const mapped = ['ｅxample.com', 'example。com', 'ex①mple.com', 'ℯxample.com'];
    const repaired = [...numbers, ...encoded, ...mapped];
    const ports = [':', ':0', ':0443', ':00', ':08443'];
    const wrong = [
      ...dots.flatMap(places).map((path) => `https://example.com${path}`),
      ...repaired.flatMap((host) => [`https://${host}/`, `https://${host}:8443/a`, `https://${host}`]),
      ...ports.map((port) => `https://example.com${port}/a`),
    ];
    for (const url of wrong)
      assert.throws(() => checkTargetForm(url, publicOnly), refusedAs('repaired'), url);
    const likeDots = ['...', '%2e%2e%2e', '.a', 'a.', '..a', '%2ea', '%252e'];
    for (const dot of [...likeDots, ':', ';', '~', 'é', '%C3%A9', '{x}', '%zz'])
      for (const path of places(dot)) checkTargetForm(`https://example.com${path}`, publicOnly);
    const ofNames = ['example.com', 'EXAMPLE.com', 'example.com.', 'a_b.example', 'xn--bcher-kva.example'];
    const hosts = [...ofNames, 'bücher.example', 'BÜCHER.example', '8.8.8.8', '[2606:4700:0:0::1111]'];
    for (const rest of ['?a=/../b', '?a=%2e%2e', ':443/', '', '/a//b/', ':8443'])
      for (const host of hosts) checkTargetForm(`https://${host}${rest}`, publicOnly);
  });

  it('may have 2,048 bytes, a port, a query and a non-ASCII name', () => {
    for (const url of [
      `https://example.com/${'a'.repeat(2_028)}`,
      `https://example.com?${'ü'.repeat(337)}`,
      'https://example.com:8443/a?b=c&d=%2F',
      'https://bücher.example/',
      'HTTPS://EXAMPLE.COM',
      'https://example.com./',
      'https://8.8.8.8/?at=a@b',
    ]) {
      assert.equal(checkTargetForm(url, publicOnly).protocol, 'https:');
    }
  });

  it('may have a non-ASCII name even after a hundred thousand others were checked', () => {
    for (let i = 0; i < 100_000; i++) checkTargetForm(`https://example.com/${i}`, publicOnly);
    assert.equal(checkTargetForm('https://bücher.example/', publicOnly).hostname, 'xn--bcher-kva.example');
  });

  it('may be http if the operator allows it', () => {
    assert.equal(checkTargetForm('http://127.0.0.1:8080/', local).port, '8080');
  });

  it('is refused with a message that contains no part of the url', () => {
    const message =
      'The URL has a user name or a password. Leave user:password@ out: each notification is signed, and the path or the query may hold a secret';
    assert.throws(() => checkTargetForm('https://user:password@example.com/', publicOnly), { message });
  });
});

/** By name or address (OWN_ADDRESSES), behind a NAT or a balancer. */
const behindNat: TargetPolicy = {
  ...publicOnly,
  ownAddresses: ['api.example.com', '93.184.216.34', '198.41.0.0/24', '2606:2800::/32'],
};
const answers: Record<string, string> = {
  'api.example.com': '8.8.4.4',
  'alias.example.net': '8.8.4.4',
  'hooks.example': '8.8.8.8',
  'inside.example': '198.41.0.9',
};
const byTable: Lookup = async (host) => {
  const address = answers[host];
  if (address === undefined) throw Object.assign(new Error('none'), { code: 'ENOTFOUND' });
  return [{ address, family: 4 }];
};
const itself = [
  ['the name', 'https://api.example.com/hook'],
  ['the name in another case and with a dot at its end', 'https://API.Example.com./hook'],
  ['the name, on any port', 'https://api.example.com:8443/hook'],
  ['another name that leads to the same address', 'https://alias.example.net/hook'],
  ['the address that the name has', 'https://8.8.4.4/hook'],
  ['an address, on any port', 'https://93.184.216.34:8443/hook'],
  ['an address in its mapped form', 'https://[64:ff9b::5db8:d822]/hook'],
  ['an address within a range', 'https://[2606:2800::9]/hook'],
  ['a name that leads into a range', 'https://inside.example/hook'],
] as const;

describe('registration: the name in the url', () => {
  const check = (lookup: Lookup, policy = publicOnly) =>
    checkTarget('https://hooks.example/', policy, lookup);
  const withPort = (port: number): TargetPolicy => ({ ...local, ownPorts: [port] });
  const name = 'https://hooks.example/';

  for (const [what, reason, url, lookup, policy = publicOnly] of [
    ['has public addresses', 'fine', name, answering(['93.184.216.34', '2606:4700::1111'])],
    ['also has an address of loopback', 'not_public', name, answering(['93.184.216.34', '127.0.0.1'])],
    ['also has one of IPv6', 'not_public', name, answering(['93.184.216.34', '::1'])],
    ['also has a private one behind NAT64', 'not_public', name, answering(['8.8.8.8', '64:ff9b::10.0.0.1'])],
    ['leads to the service', 'own_address', 'https://hooks.example:3000/', answering(['127.0.0.1']), local],
    ['leads to port 80 of it, by http', 'own_address', 'http://a.example/', answering(['::1']), withPort(80)],
    ['leads to another port, by http', 'fine', 'http://a.example/', answering(['::1']), withPort(443)],
    ['leads to port 443 of it', 'own_address', name, answering(['127.0.0.1']), withPort(443)],
    ['leads to another port', 'fine', name, answering(['127.0.0.1']), withPort(80)],
    ['does not exist', 'unknown_host', name, failing('ENOTFOUND')],
    ['has no address', 'unknown_host', name, failing('ENODATA')],
    ['is reserved', 'unknown_host', 'https://nowhere.invalid/'],
    ['means localhost', 'not_public', 'https://localhost/'],
    ['means localhost, with a dot', 'not_public', 'https://localhost./'],
    ['means localhost, where that is allowed', 'fine', 'https://localhost/', undefined, local],
    ...itself.map(([what, url]) => [`is the service’s: ${what}`, 'own_address', url, byTable, behindNat]),
    ['is of others, behind a NAT', 'fine', name, byTable, behindNat],
    [
      'is of others while the service’s own name does not resolve',
      'fine',
      name,
      byTable,
      { ...behindNat, ownAddresses: ['gone.example.com'] },
    ],
  ] as [string, TargetRefusal | 'fine', string, Lookup?, TargetPolicy?][])
    it(`that ${what}: ${reason}`, async () => {
      const checked = checkTarget(url, policy, lookup);
      await (reason === 'fine' ? checked : assert.rejects(checked, refusedAs(reason)));
    });

  it('is not judged when the resolver does not answer', async () => {
    const silent: Lookup = () => new Promise(() => undefined);
    const asked = checkTarget('https://hooks.example/', publicOnly, silent, 20);
    await assert.rejects(asked, ResolverUnavailable);
    const ours = new AttemptFailed({ error: 'dns', detail: 'name_server_silent', ours: 'resolver' });
    for (const [failed, says] of [
      [failing('ESERVFAIL'), /^The host of the url has name servers that answer with an error: try again/],
      [failing('ETIMEOUT'), /^The host of the url has name servers that do not answer: try again/],
      [failing('EMFILE'), /^The name in the url could not be looked up: try again/],
      [() => Promise.reject(ours), /^The name in the url could not be looked up: try again/],
    ] as [Lookup, RegExp][])
      await assert.rejects(
        check(failed),
        (err) => err instanceof ResolverUnavailable && says.test(err.message),
      );
  });
});
