/**
 * `npm run release`: makes the files of a release into a new folder. It needs the clean commit of the tag and every program.
 * `-- --dry-run` makes what it can from any tree, and says what it left out. `-- --out DIR` names the folder.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

process.chdir(join(dirname(fileURLToPath(import.meta.url)), '..'));
const { name, version } = JSON.parse(readFileSync('package.json', 'utf8'));
const { values } = parseArgs({ options: { 'dry-run': { type: 'boolean' }, out: { type: 'string' } } });
const isDry = values['dry-run'] === true;
const out = resolve(values.out ?? `release-${version}`);
const fileOf = (ending) => join(out, `${name}-${version}${ending}`);

// Who makes the files of this commit makes the same bytes: what writes a time into a file takes the commit's.
const committedAt = spawnSync('git', ['log', '-1', '--format=%ct']).stdout?.toString().trim();
process.env.SOURCE_DATE_EPOCH = committedAt || String(Math.floor(Date.now() / 1000));
const changes = changesOf(isDry ? 'Unreleased' : version);
if (!isDry) checkTree();
mkdirSync(out);
for (const folder of ['.', './clients/node', './clients/listen'])
  run('npm', ['pack', folder, '--pack-destination', out]);
if (isThere('python3', '-m', 'pip', '--version'))
  run('python3', ['-m', 'pip', 'wheel', '--quiet', '--no-deps', '--wheel-dir', out, './clients/python']);
// The form of `helm package`.
const chart = ['--exclude=asset-update/examples', '-C', 'deploy/helm', 'asset-update'];
const asIs = [
  '--sort=name',
  `--mtime=@${process.env.SOURCE_DATE_EPOCH}`,
  '--owner=0',
  '--group=0',
  '--numeric-owner',
  '--mode=go=rX',
];
run('tar', [...asIs, '-I', 'gzip -n', '-cf', join(out, `asset-update-${version}.tgz`), ...chart]);
writeFileSync(join(out, 'package-lock.json'), readFileSync('package-lock.json'));
const sbom = JSON.parse(run('node', ['.ci/sbom.mjs']));
writeFileSync(fileOf('.cdx.json'), JSON.stringify(sbom, null, 2));
const digest = isThere('docker', 'info') ? makeImage() : undefined;

const image = digest ? `Image: \`${name}@${digest}\`\n\n` : '';
writeFileSync(join(out, 'NOTES.md'), `# ${name} ${version}\n\n${image}${changes}\n`);
const files = readdirSync(out).sort();
const sums = files.map(
  (file) =>
    `${createHash('sha256')
      .update(readFileSync(join(out, file)))
      .digest('hex')}  ${file}\n`,
);
writeFileSync(join(out, 'SHA256SUMS'), sums.join(''));
console.log(`${out}:\n  ${[...files, 'SHA256SUMS'].join('\n  ')}`);

/** Builds the image and its SBOM. @returns the digest under which a registry has it */
function makeImage() {
  const tag = `${name}:${version}`;
  run('docker', ['build', '--tag', tag, '.']);
  run('docker', ['save', '--output', fileOf('.oci.tar'), tag]);
  const { digest } = JSON.parse(run('tar', ['-xOf', fileOf('.oci.tar'), 'index.json'])).manifests[0];
  const debs = run('docker', ['run', '--rm', tag, 'dpkg-query', '-W']).trim().split('\n');
  const components = debs.map((line) => {
    const [deb, at] = line.split('\t');
    const purl = `pkg:deb/debian/${deb}@${encodeURIComponent(at)}`;
    return { type: 'library', name: deb, version: at, purl, 'bom-ref': purl };
  });
  const component = { ...sbom.metadata.component, type: 'container', version: digest };
  const all = {
    ...sbom,
    metadata: { ...sbom.metadata, component },
    components: [...sbom.components, ...components],
  };
  writeFileSync(fileOf('.image.cdx.json'), JSON.stringify(all, null, 2));
  return digest;
}

/** Returns the changelog's section. @throws if it has none */
function changesOf(heading) {
  const sections = readFileSync('CHANGELOG.md', 'utf8').split(/^## /m);
  const found = sections.find((section) => section.startsWith(heading));
  if (found === undefined) throw new Error(`CHANGELOG.md has no heading ${heading}`);
  return found.replace(/^.*\n/, '').trim();
}

function checkTree() {
  const changed = run('git', ['status', '--porcelain']);
  if (changed) throw new Error(`The tree has changes:\n${changed}`);
  const tags = run('git', ['tag', '--points-at', 'HEAD']).split('\n');
  if (!tags.includes(`v${version}`)) throw new Error(`The commit has no tag v${version}`);
}

/** Without the program a dry run says what it leaves out. @throws otherwise */
function isThere(program, ...args) {
  if (spawnSync(program, args).status === 0) return true;
  if (!isDry) throw new Error(`${program} ${args.join(' ')} fails`);
  console.log(`left out: what needs ${program}`);
  return false;
}

function run(program, args) {
  const { stdout, stderr, status, error } = spawnSync(program, args, {
    encoding: 'utf8',
    maxBuffer: 64 << 20,
  });
  if (status !== 0) throw error ?? new Error(`${program} ${args.join(' ')}: ${stderr}`);
  return stdout;
}
