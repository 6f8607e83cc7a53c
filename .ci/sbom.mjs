/**
 * `npm run sbom`: prints the SBOM of the service, CycloneDX, from the lock file. npm's own `--omit dev` (11.19) also leaves out
 * packages that the service runs with, such as @grpc/grpc-js, so it lists all and this leaves out those of development.
 */
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const { stdout, stderr, status } = spawnSync(
  'npm',
  ['sbom', '--sbom-format', 'cyclonedx', '--sbom-type', 'application', '--package-lock-only'],
  { cwd: join(dirname(fileURLToPath(import.meta.url)), '..'), encoding: 'utf8', maxBuffer: 64 << 20 },
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
console.log(JSON.stringify(sbom, null, 2));
