/**
 * `npm run sbom`: prints the SBOM of the service, CycloneDX, from the lock file. npm's own `--omit dev` (11.19) also leaves out
 * packages that the service runs with, such as @grpc/grpc-js, so it lists all and this leaves out those of development.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const project = join(dirname(fileURLToPath(import.meta.url)), '..');
const { stdout, stderr, status } = spawnSync(
  'npm',
  ['sbom', '--sbom-format', 'cyclonedx', '--sbom-type', 'application', '--package-lock-only'],
  { cwd: project, encoding: 'utf8', maxBuffer: 64 << 20 },
);
if (status !== 0) throw new Error(`npm sbom failed: ${stderr}`);
const sbom = JSON.parse(stdout);
const isDevelopment = ({ properties = [] }) =>
  properties.some(({ name, value }) => name === 'cdx:npm:package:development' && value === 'true');
sbom.components = sbom.components.filter((component) => !isDevelopment(component));
const kept = new Set([sbom.metadata.component, ...sbom.components].map((component) => component['bom-ref']));
sbom.dependencies = sbom.dependencies
  .filter(({ ref }) => kept.has(ref))
  .map(({ ref, dependsOn = [] }) => ({ ref, dependsOn: dependsOn.filter((other) => kept.has(other)) }));
// npm writes the folder's name, the time and a number at random: instead what is the same for everybody.
sbom.metadata.component.name = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8')).name;
const at = Number(process.env.SOURCE_DATE_EPOCH ?? Date.now() / 1000);
sbom.metadata.timestamp = new Date(at * 1000).toISOString();
delete sbom.serialNumber;
const hex = createHash('sha256').update(JSON.stringify(sbom)).digest('hex');
const [, ...groups] = /^(.{8})(.{4}).(.{3}).(.{3})(.{12})/.exec(hex) ?? [];
const [a, b, c, d, e] = groups;
sbom.serialNumber = `urn:uuid:${a}-${b}-8${c}-a${d}-${e}`;
console.log(JSON.stringify(sbom, null, 2));
