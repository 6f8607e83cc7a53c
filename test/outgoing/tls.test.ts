import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { rootCertificates, type TlsOptions } from 'node:tls';
import type { AttemptDetail } from '../../src/outgoing/details.js';
import { readTrustedRoots } from '../../src/outgoing/trust.js';
import { newFolder } from '../servers.js';
import { type Certificate, issueCertificate } from './certificates.js';
import { loopbackNames } from './dnsServer.js';
import { noContent, pass, requestTo, useNetwork } from './rawReceiver.js';

const host = 'hooks.customer.example';
const root = issueCertificate({ name: 'Root', isAuthority: true });
const stranger = issueCertificate({ name: 'Stranger', isAuthority: true });
const middle = root.issue({ name: 'Middle', isAuthority: true });
const expiredMiddle = root.issue({ name: 'Old middle', isAuthority: true, untilDays: -1, fromDays: -9 });
const good = root.issue({ name: host });
const chain = (...certificates: Certificate[]): TlsOptions => ({
  key: certificates[0]?.key,
  cert: certificates.map(({ cert }) => cert).join(''),
});
const forClients = '2b06010505070302';
const old = { minVersion: 'TLSv1', ciphers: 'DEFAULT:@SECLEVEL=0' } as const;
const wantsCertificate = { requestCert: true, rejectUnauthorized: true };

const servers: [what: string, options: TlsOptions, detail: AttemptDetail | undefined][] = [
  ['is good', chain(good), undefined],
  ['has its intermediate', chain(middle.issue({ name: host }), middle), undefined],
  ['has names', chain(root.issue({ name: 'x', names: ['a.example', '*.customer.example'] })), undefined],
  ['has expired', chain(root.issue({ name: host, fromDays: -9, untilDays: -1 })), 'certificate_expired'],
  [
    'has an intermediate that has expired',
    chain(expiredMiddle.issue({ name: host }), expiredMiddle),
    'certificate_expired',
  ],
  ['is not valid yet', chain(root.issue({ name: host, fromDays: 1 })), 'certificate_not_yet_valid'],
  ...[['other.example'], ['customer.example'], ['*.example'], ['*.hooks.customer.example']].map(
    (names): (typeof servers)[0] => [
      `is for ${names}`,
      chain(root.issue({ name: host, names })),
      'certificate_name',
    ],
  ),
  ['has signed itself', chain(issueCertificate({ name: host })), 'certificate_self_signed'],
  ['lacks its intermediate', chain(middle.issue({ name: host })), 'certificate_incomplete'],
  [
    'is of an unknown authority, which is shown',
    chain(stranger.issue({ name: host }), stranger),
    'certificate_unknown_authority',
  ],
  [
    'lacks the issuer of its intermediate',
    ((m) => chain(m.issue({ name: host }), m))(middle.issue({ name: 'M', isAuthority: true })),
    'certificate_incomplete',
  ],
  ['has a short key', { ...chain(root.issue({ name: host, rsaBits: 768 })), ...old }, 'certificate_invalid'],
  ['is for clients only', chain(root.issue({ name: host, usage: forClients })), 'certificate_invalid'],
  ['is used with TLS 1.0 only', { ...chain(good), ...old, maxVersion: 'TLSv1' }, 'tls_version'],
  ['is used with TLS 1.1 only', { ...chain(good), ...old, maxVersion: 'TLSv1.1' }, 'tls_version'],
  ['is used with TLS 1.2 only', { ...chain(good), maxVersion: 'TLSv1.2' }, undefined],
  ['is used with HTTP/2 only', { ...chain(good), ALPNProtocols: ['h2'] }, 'http2_only'],
  [
    'is used with no common cipher',
    { ...chain(good), maxVersion: 'TLSv1.2', ciphers: 'ECDHE-RSA-AES128-GCM-SHA256' },
    'tls_cipher',
  ],
  ['is not there', {}, 'tls_cipher'],
  ['fails to load', { SNICallback: (_name, done) => done(new Error('none')) }, 'handshake_broken'],
  ...(['TLSv1.2', 'TLSv1.3'] as const).map((version): (typeof servers)[0] => [
    `is used by a server that wants one of ours, ${version}`,
    { ...chain(good), ...wantsCertificate, minVersion: version, maxVersion: version },
    'client_certificate_wanted',
  ]),
];

describe('a receiver over TLS', () => {
  const { start, sending } = useNetwork();
  const post = async (port: number) =>
    sending({ ca: root.cert, names: loopbackNames }).post(requestTo(`https://${host}:${port}/`));

  for (const [what, tls, detail] of servers)
    it(`whose certificate ${what} ends as ${detail ?? 'delivered'}`, async () => {
      const receiver = await start({ tls, answer: (s) => s.write(noContent) });
      const result = await post(receiver.port);
      assert.deepEqual(
        [result.error, result.detail],
        detail === undefined ? [undefined, undefined] : ['tls', detail],
      );
    });

  it('may have a dot at the end of its name', async () => {
    const { port } = await start({ tls: chain(good), answer: (s) => s.write(noContent) });
    const sender = sending({ ca: root.cert, names: loopbackNames });
    assert.equal((await sender.post(requestTo(`https://${host}.:${port}/`))).status, 204);
  });

  const refusals: [what: string, does: (socket: Socket) => unknown, detail: AttemptDetail][] = [
    ['speaks HTTP without TLS', (s) => s.end('HTTP/1.1 400 Bad Request\r\n\r\n'), 'not_tls'],
    ['speaks SMTP', (s) => s.end('220 mail.example ESMTP\r\n'), 'not_tls'],
    ['closes', (s) => s.end(), 'handshake_broken'],
    ['resets', (s) => s.resetAndDestroy(), 'handshake_broken'],
  ];
  for (const [what, does, detail] of refusals)
    it(`that ${what} in the handshake ends as ${detail}`, async () => {
      const receiver = await start({ onConnection: (s) => s.once('data', () => does(s)) });
      const result = await post(receiver.port);
      assert.deepEqual([result.error, result.detail], ['tls', detail]);
    });

  for (const version of ['TLSv1.2', 'TLSv1.3'] as const)
    for (const [what, bytes] of [
      ['a page without TLS', 'HTTP/1.1 403 Forbidden\r\n\r\n'],
      ['a record that no key opens', Buffer.concat([Buffer.from('1703030040', 'hex'), Buffer.alloc(64)])],
    ] as const)
      it(`whose answer a middlebox replaces by ${what} (${version}), and closes nothing, ends as handshake_broken`, async () => {
        const tls = { ...chain(good), minVersion: version, maxVersion: version };
        const sockets: Socket[] = [];
        const behind = await start({ tls, answer: () => sockets[0]?.write(bytes) });
        const onConnection = (socket: Socket) => {
          sockets.push(socket);
          pass(socket, behind.port);
        };
        const { error, detail } = await post((await start({ onConnection })).port);
        assert.deepEqual([error, detail], ['tls', 'handshake_broken']);
      });

  /** All others are `handshake_broken`. */
  const alerts: Partial<Record<AttemptDetail, number[]>> = {
    client_certificate_wanted: [41, 42, 43, 44, 45, 46, 48, 49, 116],
    tls_version: [70, 86],
    tls_cipher: [40, 71],
    tls_name_unknown: [112],
    http2_only: [120],
  };
  it('that refuses with an alert in the handshake ends as what that alert says', async () => {
    let alert = 0;
    const receiver = await start({
      onConnection: (s) => s.once('data', () => s.end(Buffer.from([21, 3, 3, 0, 2, 2, alert]))),
    });
    for (; alert < 128; alert++) {
      const { error, detail } = await post(receiver.port);
      const [says = 'handshake_broken'] =
        Object.entries(alerts).find(([, numbers]) => numbers.includes(alert)) ?? [];
      assert.deepEqual([error, detail], ['tls', says], `${alert}`);
    }
  });
});

describe('The trusted roots', () => {
  const { start, sending } = useNetwork();
  let folder: string;
  before(async () => {
    folder = await newFolder();
  });
  const roots = ['A', 'B'].map((name) => issueCertificate({ name, isAuthority: true }));
  const fingerprint = (pem = '') => new X509Certificate(pem).fingerprint256.replaceAll(':', '').toLowerCase();
  const fileOf = (text: string) => {
    const file = join(folder, 'roots.pem');
    writeFileSync(file, text);
    return file;
  };
  const all = () => fileOf(`# ours\n${roots.map(({ cert }) => cert).join('# next\n')}`);

  for (const [what, leftOut, expected] of [
    ['are those of the file', [], [undefined, undefined]],
    ['are those of the file but the ones left out', [1], [undefined, 'certificate_incomplete']],
  ] as const)
    it(what, async () => {
      const ca = readTrustedRoots({
        TRUSTED_ROOTS_FILE: all(),
        DISTRUSTED_ROOTS: leftOut.map((i) => fingerprint(roots[i]?.cert)),
      });
      const details = [];
      for (const root of roots) {
        const tls = chain(root.issue({ name: host }));
        const { port } = await start({ tls, answer: (s) => s.write(noContent) });
        const sender = sending({ ca, names: loopbackNames });
        details.push((await sender.post(requestTo(`https://${host}:${port}/`))).detail);
      }
      assert.deepEqual(details, expected);
    });

  it('are Node’s, without those that are left out', () => {
    const [first, ...others] = rootCertificates;
    assert.equal(readTrustedRoots({ TRUSTED_ROOTS_FILE: undefined, DISTRUSTED_ROOTS: [] }), undefined);
    const kept = readTrustedRoots({ TRUSTED_ROOTS_FILE: undefined, DISTRUSTED_ROOTS: [fingerprint(first)] });
    assert.deepEqual(kept, others);
  });

  it('are refused where the file is none, has none or a broken one, and where one to leave out is not there', () => {
    const broken = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n';
    const read = (TRUSTED_ROOTS_FILE: string, ...DISTRUSTED_ROOTS: string[]) => {
      return () => readTrustedRoots({ TRUSTED_ROOTS_FILE, DISTRUSTED_ROOTS });
    };
    assert.throws(read(join(folder, 'none')), /TRUSTED_ROOTS_FILE/);
    for (const text of ['', 'not PEM', broken]) assert.throws(read(fileOf(text)), /TRUSTED_ROOTS_FILE/, text);
    const says = /DISTRUSTED_ROOTS: no trusted root has the fingerprint 000/;
    assert.throws(read(all(), '0'.repeat(64)), says);
  });
});
