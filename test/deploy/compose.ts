import { readFileSync } from 'node:fs';
import { parse } from 'yaml';

export interface ComposeService {
  image: string;
  build?: string;
  command?: string[];
  environment?: Record<string, string | number>;
  user?: string;
  read_only?: boolean;
  cap_drop?: string[];
  cap_add?: string[];
  security_opt?: string[];
  ports?: string[];
  volumes?: string[];
  networks: string[] | Record<string, { ipv4_address: string }>;
  stop_grace_period?: string;
  healthcheck?: { test: string[] };
  depends_on?: Record<string, { condition: string }>;
  profiles?: string[];
  deploy?: { replicas?: number; resources: { limits: { cpus: string; memory: string; pids: number } } };
}

export interface Compose {
  services: Record<string, ComposeService>;
  volumes: Record<string, unknown>;
  networks: Record<string, { internal?: boolean; ipam?: { config: { subnet: string; ip_range: string }[] } }>;
}

/** `docker-compose.yml` as Compose sees it: anchors merged, variables put in. */
export function readCompose(variables: Record<string, string>): Compose {
  const text = readFileSync('docker-compose.yml', 'utf8');
  const document: unknown = parse(text, { merge: true });
  return interpolate(document, variables) as Compose;
}

export class MissingVariable extends Error {
  override name = 'MissingVariable';
}

/** The forms of Compose's interpolation that the file uses: `${A}`, `${A:-default}`, `${A:?message}`, and one in the default of another. */
function interpolate(node: unknown, variables: Record<string, string>): unknown {
  if (typeof node === 'string') {
    return node.replace(
      /\$\{([A-Z_]+)(?:(:[-?])((?:[^{}]|\$\{[^{}]*\})*))?\}/g,
      (_, name: string, form?: string, rest = '') => {
        const value = variables[name];
        if (value) return value;
        if (form === ':?') throw new MissingVariable(`${name}: ${rest}`);
        return form === ':-' ? String(interpolate(rest, variables)) : '';
      },
    );
  }
  if (Array.isArray(node)) return node.map((item) => interpolate(item, variables));
  if (node !== null && typeof node === 'object') {
    return Object.fromEntries(Object.entries(node).map(([k, v]) => [k, interpolate(v, variables)]));
  }
  return node;
}
