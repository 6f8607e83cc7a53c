import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { rootCertificates } from 'node:tls';
import { readTrustedRoots } from '../../src/outgoing/trust.js';
import { issueCertificate } from './certificates.js';
import { loopbackNames } from './dnsServer.js';
import { noContent, requestTo, useNetwork } from './rawReceiver.js';

describe('The trusted roots', () => {
  const { start, sending } = useNetwork();
  const folder = mkdtempSync(join(tmpdir(), 'trust-'));
  after(() => rmSync(folder, { recursive: true }));
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
        const { key, cert } = root.issue({ name: 'hooks.customer.example' });
        const { port } = await start({ tls: { key, cert }, answer: (s) => s.write(noContent) });
        const url = `https://hooks.customer.example:${port}/`;
        details.push((await sending({ ca, names: loopbackNames }).post(requestTo(url))).detail);
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
    for (const file of [join(folder, 'none'), fileOf(''), fileOf('not PEM')])
      assert.throws(
        () => readTrustedRoots({ TRUSTED_ROOTS_FILE: file, DISTRUSTED_ROOTS: [] }),
        /TRUSTED_ROOTS_FILE/,
      );
    assert.throws(
      () => readTrustedRoots({ TRUSTED_ROOTS_FILE: fileOf(broken), DISTRUSTED_ROOTS: [] }),
      /ROOTS_FILE/,
    );
    const unknown = { TRUSTED_ROOTS_FILE: all(), DISTRUSTED_ROOTS: ['0'.repeat(64)] };
    assert.throws(
      () => readTrustedRoots(unknown),
      /DISTRUSTED_ROOTS: no trusted root has the fingerprint 000/,
    );
  });
});
