/** Reads REDIS_URL: one Redis, the nodes of a cluster, or the Sentinels that know which Redis is the primary. */

export interface RedisNode {
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
 * Reads an address. In a cluster's, credentials stand once, before the first node. Sentinels have
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
