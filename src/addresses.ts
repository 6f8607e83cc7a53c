/** Reads where the servers are: Redis from REDIS_URL, Temporal from the variables TEMPORAL_*. */
import type { TLSConfig } from '@temporalio/client';
import { loadClientConnectConfig } from '@temporalio/envconfig';

interface RedisNode {
  host: string;
  port: number;
}

interface Credentials {
  username?: string;
  password?: string;
}

export type RedisAddress =
  | { kind: 'single'; url: string }
  /** Some of its nodes: one that answers names the others. */
  | ({ kind: 'cluster'; nodes: RedisNode[]; tls: boolean } & Credentials)
  /** `name`: the primary's name in the Sentinels. */
  | ({
      kind: 'sentinel';
      sentinels: RedisNode[];
      name: string;
      db: number;
      tls: boolean;
      sentinel: Credentials;
    } & Credentials);

const forms = {
  scheme: 'must start with redis:// or rediss://',
  cluster: 'must be redis+cluster://host:port of one or several nodes of the cluster, separated by commas',
  clusterDb: 'must name no database: a cluster has only 0',
  sentinel: 'must be redis+sentinel://host:port,host:port/master-name[/db]',
  several: 'names several nodes: begin with redis+cluster:// or redis+sentinel://',
};

/**
 * Reads the address of one Redis, of the nodes of a cluster, or of the Sentinels that know which Redis is the primary. In a cluster's, credentials stand once, before the first node. Sentinels have
 * their own credentials, `?sentinel_username=...&sentinel_password=...`; those before the hosts are the primary's.
 * @throws RangeError saying what is wrong, without the address: it may hold a password
 */
export function readRedisAddress(url: string): RedisAddress {
  const scheme = /^rediss?(?:\+(sentinel|cluster))?:\/\//.exec(url);
  if (scheme === null) throw new RangeError(forms.scheme);
  if (scheme[1] === 'cluster') return clusterAddress(url);
  if (scheme[1] === 'sentinel') return sentinelAddress(url);
  const [hosts = ''] = url.replace(/^rediss?:\/\/([^/]*@)?/, '').split('/');
  if (hosts.includes(',')) throw new RangeError(forms.several);
  return { kind: 'single', url };
}

function clusterAddress(url: string): RedisAddress {
  const [, scheme, credentials, rest = ''] = /^(rediss?)\+cluster:\/\/(?:([^@/]*)@)?(.*)$/.exec(url) ?? [];
  const nodes = rest.split(',').map((part) => {
    const [, host = '', path = ''] = /^([^/]*)(.*)$/.exec(part.trim()) ?? [];
    if (!/^(\/0?)?$/.test(path)) throw new RangeError(forms.clusterDb);
    return nodeOf(host, 6379, forms.cluster);
  });
  return { kind: 'cluster', nodes, tls: scheme === 'rediss', ...credentialsOf(credentials) };
}

function sentinelAddress(url: string): RedisAddress {
  const found = /^(rediss?)\+sentinel:\/\/(?:([^@/]*)@)?([^/?]+)\/([^/?]+)(?:\/(\d+))?\/?(?:\?(.*))?$/.exec(
    url,
  );
  if (found === null) throw new RangeError(forms.sentinel);
  const [, scheme, credentials, hosts = '', name = '', db, query] = found;
  const asked = new URLSearchParams(query ?? '');
  const [username, password] = [asked.get('sentinel_username'), asked.get('sentinel_password')];
  return {
    kind: 'sentinel',
    sentinels: hosts.split(',').map((host) => nodeOf(host.trim(), 26379, forms.sentinel)),
    name: decodeURIComponent(name),
    db: Number(db ?? 0),
    tls: scheme === 'rediss',
    sentinel: { ...(username && { username }), ...(password && { password }) },
    ...credentialsOf(credentials),
  };
}

function nodeOf(text: string, defaultPort: number, form: string): RedisNode {
  const [, v6, name, port] = /^(?:\[([0-9a-f:]+)\]|([^\s:,@/?[\]]+))(?::(\d{1,5}))?$/i.exec(text) ?? [];
  const host = v6 ?? name;
  if (host === undefined) throw new RangeError(form);
  return { host, port: port === undefined ? defaultPort : Number(port) };
}

function credentialsOf(text: string | undefined): Credentials {
  if (!text) return {};
  const colon = text.indexOf(':');
  const [username, password] = colon < 0 ? [text, ''] : [text.slice(0, colon), text.slice(colon + 1)];
  return {
    ...(username !== '' && { username: decodeURIComponent(username) }),
    ...(password !== '' && { password: decodeURIComponent(password) }),
  };
}

/** The options that every connection to Temporal shares. */
export interface TemporalConnectionOptions {
  address: string;
  apiKey?: string;
  tls: TLSConfig | boolean;
  /** Sent along with every call. */
  metadata?: Record<string, string>;
}

/**
 * Reads Temporal's own variables (`TEMPORAL_*`) with Temporal's library: its connection, or a profile of its file.
 * @param given the environment, without empty variables
 * @throws Error one line, never a value
 */
export function readTemporalVariables(given: Record<string, string>): {
  namespace: string | undefined;
  connection: TemporalConnectionOptions;
} {
  // The library reads any other text as false: a key would be sent without TLS.
  if (!/^(true|false|1|0)$/.test(given.TEMPORAL_TLS ?? 'true')) {
    throw new Error('TEMPORAL_TLS: must be true or false');
  }
  // A user's file for the `temporal` command must not affect the service.
  const disableFile = given.TEMPORAL_CONFIG_FILE === undefined && given.TEMPORAL_PROFILE === undefined;
  try {
    const { namespace, connectionOptions } = loadClientConnectConfig({ overrideEnvVars: given, disableFile });
    const {
      address = '127.0.0.1:7233',
      apiKey,
      tls = false,
      metadata,
    } = connectionOptions as Partial<TemporalConnectionOptions>;
    return { namespace, connection: { address, apiKey, tls, metadata } };
  } catch (err) {
    throw new Error(`TEMPORAL_*: ${reasonOf(err as NodeJS.ErrnoException)}`);
  }
}

/** The library's further lines quote the file, and an error of the file system shows its path. */
function reasonOf({ code, syscall, message }: NodeJS.ErrnoException): string {
  return syscall === undefined ? (message.split('\n')[0] ?? '') : `a file cannot be read (${code})`;
}
