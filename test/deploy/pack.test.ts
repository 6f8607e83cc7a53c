/** What a release consists of, and that the service runs from its tarball. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { copyFile, mkdir, readdir, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { findOnPath } from '../../local/binaries.js';
import { openapi } from '../../src/api/reference/openapi.js';
import { userAgent } from '../../src/outgoing/notification.js';
import { allExamples } from '../examples/examples.js';
import { startService } from '../program.js';
import { newPublisher, publishOne } from '../publisher.js';
import { newFolder, opened } from '../servers.js';
import { run } from '../tools.js';

const root = join(import.meta.dirname, '../..');
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
/** Everything else in the clone is for those who change the service. */
const expected =
  /^(dist\/(src|activities|workflows|clients)\/.+|dist\/examples\/\w+\/[Rr]eceiver\.\w+|dist\/workflow-bundle\.js|deploy\/(grafana|haproxy|temporal)\/.+|deploy\/healthcheck\.mjs|deploy\/prometheus\/alerts\.yml|docs\/[^/]+\.md|docs\/(guides|reference)\/.+|(CHANGELOG|README|SECURITY)\.md|LICENSE|package\.json)$/;

describe('The files of a release', () => {
  let out: string;
  let said: string;
  let folder: string;
  let files: string[];

  before(async function () {
    this.timeout(120_000);
    const dir = await newFolder();
    // Without programs that a machine may lack.
    const bin = join(dir, 'bin');
    await mkdir(bin);
    for (const program of ['sh', 'env', 'tar', 'gzip', 'node', 'npm'])
      await symlink(findOnPath(program) ?? '', join(bin, program));
    const env = { ...process.env, PATH: bin };
    out = join(dir, 'out');
    const args = ['.ci/release.mjs', '--dry-run', '--out', out];
    ({ stdout: said } = await run(process.execPath, args, { cwd: root, env }));
    const tarball = join(out, `${manifest.name}-${manifest.version}.tgz`);
    const { stdout: list } = await run('tar', ['tzf', tarball]);
    files = list
      .trim()
      .replaceAll(/^package\//gm, '')
      .split('\n');
    await run('tar', ['xzf', tarball, '-C', dir]);
    folder = join(dir, 'package');
    // As docs/releases.md says: the lock file of the release lies beside the tarball.
    await copyFile(join(out, 'package-lock.json'), join(folder, 'package-lock.json'));
    await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  });

  it('a dry run makes them, and names what it leaves out, and their checksums hold', async () => {
    assert.match(said, /left out: .* docker/);
    const made = await readdir(out);
    for (const name of ['service', 'client', 'listen']
      .map((one) => `asset-update-${one}`)
      .concat('asset-update'))
      assert.ok(made.includes(`${name}-${manifest.version}.tgz`), `${name} in ${made}`);
    assert.match(await readFile(join(out, 'NOTES.md'), 'utf8'), /### Added/);
    await run('sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: out });
    const chart = (await run('tar', ['-tzf', join(out, `asset-update-${manifest.version}.tgz`)])).stdout;
    assert.match(chart, /^asset-update\/Chart\.yaml$/m);
    assert.doesNotMatch(chart, /examples/);
    const client = (await run('tar', ['-tzf', join(out, `asset-update-client-${manifest.version}.tgz`)]))
      .stdout;
    assert.match(client, /^package\/dist\/client\.js$/m);
  });

  it('the tarball has what runs the service, and no test, benchmark, source, data or secret', async () => {
    const unexpected = files.filter((file) => !expected.test(file));
    assert.deepEqual(unexpected, []);
    const superfluous = files.filter((file) =>
      /\.(test\.\w+|map|png|ts|env|log)$|(^|\/)\.|node_modules/.test(file),
    );
    assert.deepEqual(superfluous, []);
    for (const { name, source } of allExamples) {
      assert.ok(files.includes(`dist/examples/${name}/${source}`), name);
    }
    for (const file of ['CHANGELOG.md', 'LICENSE', 'README.md', 'docs/contract.md', 'docs/releases.md']) {
      assert.ok(files.includes(file), file);
    }
  });

  it('the tarball is built before it is packed', () => {
    assert.equal(manifest.scripts.prepack, manifest.scripts.build);
  });

  it('the tarball has the same workflow bundle wherever it is built: its map knows neither the folder nor the length of its name', async () => {
    const code = await readFile(join(folder, 'dist/workflow-bundle.js'), 'utf8');
    const [, encoded = ''] =
      /sourceMappingURL=data:application\/json;charset=utf-8;base64,(\S+)/.exec(code) ?? [];
    const map = JSON.parse(Buffer.from(encoded, 'base64').toString());
    assert.equal(map.file, 'workflow-bundle.js');
    assert.deepEqual(
      map.sources.filter((source: string) => source.startsWith('/')),
      [],
    );
    assert.ok(!map.mappings.includes(','), 'a line has columns');
  });

  it('the tarball runs the operator commands', async () => {
    const { stdout } = await run(process.execPath, ['dist/src/operator/main.js', '--help'], { cwd: folder });
    assert.match(stdout, /^Usage: /);
  });

  it('the tarball runs the API with its pages, and a worker that delivers an event', async () => {
    const service = opened(await startService({}, 'all', { folder }));
    for (const path of ['/docs', '/docs/swagger-ui-bundle.js', '/console', '/console/assets/console.css']) {
      assert.equal((await fetch(`${service.url}${path}`)).status, 200, path);
    }
    await publishOne(await newPublisher(service));
  });
});

/** Each file that cannot read the version from package.json, with what finds the version in it. */
const copies: Record<string, RegExp> = {
  'package-lock.json': /"name": "asset-update-service",\s+"version": "([^"]+)"/g,
  'clients/node/package.json': /^ {2}"version": "([^"]+)"/gm,
  'clients/listen/package.json': /^ {2}"version": "([^"]+)"/gm,
  'clients/python/pyproject.toml': /^version = "([^"]+)"/gm,
  'clients/listen/README.md': /asset-update-listen-(\d\S+)\.tgz/g,
  'docker-compose.yml': /image: asset-update-service:(\S+)/g,
  'deploy/helm/asset-update/Chart.yaml': /^(?:version|appVersion): (\S+)$/gm,
  'deploy/helm/asset-update/README.md': /asset-update-service:(\d\S+)/g,
};

describe('the version of package.json', () => {
  it('is that of every file that names a version', () => {
    for (const [file, pattern] of Object.entries(copies)) {
      const found = [...readFileSync(join(root, file), 'utf8').matchAll(pattern)].map(([, copy]) => copy);
      assert.deepEqual([...new Set(found)], [manifest.version], file);
    }
  });

  it('is that of the description of the API and of the header user-agent', () => {
    assert.equal(openapi.info.version, manifest.version);
    assert.equal(userAgent, `${manifest.name}/${manifest.version}`);
  });
});
