/** The files that cannot read the version from package.json have it, too. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { openapi } from '../../src/api/reference/openapi.js';
import { userAgent } from '../../src/outgoing/notification.js';

const root = join(import.meta.dirname, '../..');
const read = (file: string): string => readFileSync(join(root, file), 'utf8');
const { name, version } = JSON.parse(read('package.json')) as { name: string; version: string };

/** Each file, with what finds the version in it. */
const copies: Record<string, RegExp> = {
  'package-lock.json': /"name": "asset-update-service",\s+"version": "([^"]+)"/g,
  'clients/node/package.json': /^ {2}"version": "([^"]+)"/gm,
  'clients/listen/package.json': /^ {2}"version": "([^"]+)"/gm,
  'clients/listen/README.md': /asset-update-listen-(\d\S+)\.tgz/g,
  'docker-compose.yml': /image: asset-update-service:(\S+)/g,
  'deploy/helm/asset-update/Chart.yaml': /^(?:version|appVersion): (\S+)$/gm,
  'deploy/helm/asset-update/README.md': /asset-update-service:(\d\S+)/g,
};

describe('the version of package.json', () => {
  for (const [file, pattern] of Object.entries(copies)) {
    it(`is that of ${file}`, () => {
      const found = [...read(file).matchAll(pattern)].map(([, copy]) => copy);
      assert.ok(found.length > 0, `no version in ${file}`);
      assert.deepEqual(new Set(found), new Set([version]));
    });
  }

  it('is that of the description of the API and of the header user-agent', () => {
    assert.equal(openapi.info.version, version);
    assert.equal(userAgent, `${name}/${version}`);
  });

  it('has a section in CHANGELOG.md, with its date', () => {
    assert.match(read('CHANGELOG.md'), new RegExp(`^## ${version} - \\d{4}-\\d\\d-\\d\\d$`, 'm'));
  });
});
