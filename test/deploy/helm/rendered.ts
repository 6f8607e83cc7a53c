import { parseAllDocuments } from 'yaml';
import { chartDir, helm } from './tools.js';

export interface Container {
  image: string;
  command: string[];
  env: { name: string; value?: string; valueFrom?: { secretKeyRef: { name: string; key: string } } }[];
  ports: { name: string; containerPort: number }[];
  securityContext: Record<string, unknown>;
  startupProbe: Probe;
  livenessProbe: Probe;
  readinessProbe: Probe;
  volumeMounts: { name: string; mountPath: string; readOnly?: boolean }[];
  resources: { limits: Record<string, string> };
}

interface Probe {
  httpGet: { path: string; port: string };
}

export interface PodSpec {
  automountServiceAccountToken: boolean;
  enableServiceLinks: boolean;
  securityContext: Record<string, unknown>;
  terminationGracePeriodSeconds: number;
  containers: [Container];
  topologySpreadConstraints: { topologyKey: string }[];
}

/** The parts of a manifest that the tests check; the schemas check all of it. */
export interface Manifest {
  kind: string;
  metadata: { name: string };
  // biome-ignore lint/suspicious/noExplicitAny: of every kind
  spec: any;
}

/** The manifests of a release `rel`. @throws Error with Helm's words where it refuses */
export async function rendered(...args: string[]): Promise<Manifest[]> {
  const text = await helm('template', 'rel', chartDir, ...args);
  return parseAllDocuments(text)
    .map((document) => document.toJS() as Manifest | null)
    .filter((manifest) => manifest !== null);
}

export const ofKind = (manifests: Manifest[], kind: string): Manifest[] =>
  manifests.filter((manifest) => manifest.kind === kind);

/** The Pods of its Deployments, by role. */
export function podsOf(manifests: Manifest[]): Map<string, PodSpec> {
  return new Map(
    ofKind(manifests, 'Deployment').map(({ spec }) => {
      const pod = spec.template.spec as PodSpec;
      return [pod.containers[0].command.at(-1) ?? '', pod];
    }),
  );
}

/** The environment of a container as the service reads it, secrets as `given`. */
export function environmentOf({ env }: Container, given: Record<string, string>): Record<string, string> {
  return Object.fromEntries(env.map(({ name, value }) => [name, value ?? given[name] ?? '']));
}
