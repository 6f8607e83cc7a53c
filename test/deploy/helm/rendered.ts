import { parseAllDocuments } from 'yaml';
import { chartDir, helm } from './tools.js';

export interface Container {
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
}

export interface Manifest {
  kind: string;
  metadata: { name: string };
  /** What the tests look at, of any kind; the schemas check all of it. */
  spec: {
    replicas?: number;
    template: { spec: PodSpec };
    selector: Record<string, string>;
    egress: { to: { ipBlock?: { cidr: string } }[]; ports?: { port: number }[] }[];
    ingress: unknown[];
    groups: { name: string; rules: { alert?: string; expr: string; labels?: Record<string, string> }[] }[];
  };
}

/** Renders the manifests of a release `rel`. @throws Error with Helm's message if it refuses */
export async function rendered(...args: string[]): Promise<Manifest[]> {
  const text = await helm('template', 'rel', chartDir, ...args);
  return parseAllDocuments(text)
    .map((document) => document.toJS() as Manifest | null)
    .filter((manifest) => manifest !== null);
}

export const ofKind = (manifests: Manifest[], kind: string): Manifest[] =>
  manifests.filter((manifest) => manifest.kind === kind);

/** Returns the Pods of its Deployments, by role. */
export function podsOf(manifests: Manifest[]): Map<string, PodSpec> {
  return new Map(
    ofKind(manifests, 'Deployment').map(({ spec }) => {
      const pod = spec.template.spec;
      return [pod.containers[0].command.at(-1) ?? '', pod];
    }),
  );
}

/** Returns the environment of a container as the service reads it, with the secrets of `given`. */
export function environmentOf({ env }: Container, given: Record<string, string>): Record<string, string> {
  return Object.fromEntries(env.map(({ name, value }) => [name, value ?? given[name] ?? '']));
}
