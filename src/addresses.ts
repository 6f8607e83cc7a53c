/** Reads where the servers are: Redis by REDIS_URL, Temporal by the variables TEMPORAL_*, the service by its HOST. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { type ClientConnectConfig, loadClientConnectConfig } from '@temporalio/envconfig';

export type RedisAddress = ReturnType<typeof readRedisAddress>;

const form = /^redis(s?)(?:\+(cluster|sentinel))?:\/\/(?:([^@:]*)(?::([^@]*))?@)?([^/?#]*)([^#]*)$/s;

const wrong = {
  scheme: 'must start with redis:// or rediss://',
  encoded:
    'has a user or a password that is not percent-encoded: write , as %2C, @ as %40, # as %23, / as %2F, ? as %3F and % as %25',
  several: 'names several nodes: begin with redis+cluster:// or redis+sentinel://',
  single: 'must be redis://host:port, or redis://host:port/database with a number, and no options',
  cluster: 'must be redis+cluster://host:port of one or several nodes of the cluster, separated by commas',
  clusterDb: 'must name no database: a cluster has only 0',
  sentinel:
    'must be redis+sentinel://host:port,host:port/master-name[/db], with no options but sentinel_username and sentinel_password',
};

/**
 * Reads the address of one Redis, of the nodes of a cluster, or of the Sentinels that know which Redis is the primary.
 * Credentials stand once, before the first host. Sentinels have their own, `?sentinel_username=...&sentinel_password=...`;
 * those before the hosts are the primary's.
 * @throws RangeError saying what is wrong, without the address: it may hold a password
 */
export function readRedisAddress(url: string) {
  if (!/^rediss?(\+cluster|\+sentinel)?:\/\//.test(url)) throw new RangeError(wrong.scheme);
  const credentials = url.slice(url.indexOf('//') + 2).replace(/@?[^@]*$/s, '');
  const found = form.exec(url);
  if (found === null || /[,@#/?\s]/.test(credentials)) throw new RangeError(wrong.encoded);
  const [, s, kind, username, password, hosts = '', rest = ''] = found;
  const common = { tls: s === 's', username: decoded(username), password: decoded(password) };
  if (kind === 'cluster') {
    if (!/^(\/0?)?$/.test(rest)) throw new RangeError(wrong.clusterDb);
    // Some nodes of the cluster: the first that answers names the others.
    return { kind: 'cluster' as const, nodes: nodesIn(hosts, 6379, wrong.cluster), ...common };
  }
  if (kind === 'sentinel') {
    const [, name, db = '0', query] = /^\/([^/?]+)(?:\/(\d+))?\/?(?:\?(.*))?$/.exec(rest) ?? [];
    const asked = new URLSearchParams(query);
    const isKnown = [...asked.keys()].every((key) => /^sentinel_(username|password)$/.test(key));
    if (name === undefined || !isKnown) throw new RangeError(wrong.sentinel);
    const sentinel = {
      username: asked.get('sentinel_username') || undefined,
      password: asked.get('sentinel_password') || undefined,
    };
    const nodes = nodesIn(hosts, 26379, wrong.sentinel);
    const primary = { name: decodeURIComponent(name), db: Number(db) };
    return { kind: 'sentinel' as const, nodes, sentinel, ...primary, ...common };
  }
  if (hosts.includes(',')) throw new RangeError(wrong.several);
  if (!/^(\/\d*)?$/.test(rest)) throw new RangeError(wrong.single);
  if (hosts !== '') nodesIn(hosts, 6379, wrong.single);
  return { kind: 'single' as const, url };
}

/** Returns the address without user, password and options, for messages. */
export function withoutPassword(url: string): string {
  const [, s = '', kind, , , hosts, rest = ''] = form.exec(url) ?? [];
  return `redis${s}${kind === undefined ? '' : `+${kind}`}://${hosts}${rest.replace(/\?.*$/s, '')}`;
}

/**
 * Reads the certificate that Redis may demand of its callers, and its key, both in PEM.
 * @returns undefined if the settings name none
 * @throws RangeError without a text of a file
 */
export function readRedisCertificate(given: Partial<Record<(typeof certificateFiles)[number], string>>) {
  const [file, keyFile] = certificateFiles.map((name) => given[name]);
  if (file === undefined && keyFile === undefined) return undefined;
  try {
    const [cert, key] = [file, keyFile].map((path = '') => readFileSync(path, 'utf8')) as [string, string];
    const chain = certificatesIn(cert);
    if (chain[0]?.checkPrivateKey(createPrivateKey(key)))
      return { cert, key, endsAtMs: Math.min(...endsOf(chain)) };
  } catch {
    // Said below: the error's own text may quote the file.
  }
  throw new RangeError(
    `must be, with ${certificateFiles[1]}, files of a certificate and its key, both in PEM`,
  );
}

export const certificateFiles = ['REDIS_CERTIFICATE_FILE', 'REDIS_CERTIFICATE_KEY_FILE'] as const;

/** @throws RangeError if it is not percent-encoded */
function decoded(given: string | undefined): string | undefined {
  try {
    return given ? decodeURIComponent(given) : undefined;
  } catch {
    throw new RangeError(wrong.encoded);
  }
}

/** @throws RangeError with this message */
function nodesIn(hosts: string, defaultPort: number, message: string) {
  return hosts.split(',').map((text) => {
    const [, v6, name, port = defaultPort] =
      /^(?:\[([0-9a-f:]+)\]|([^\s:,@/?[\]]+))(?::(\d{1,5}))?$/i.exec(text.trim()) ?? [];
    const host = v6 ?? name;
    if (host === undefined || Number(port) > 65_535) throw new RangeError(message);
    return { host, port: Number(port) };
  });
}

export type TemporalConnectionOptions = ClientConnectConfig['connectionOptions'] & { address: string };

/**
 * Reads Temporal's own variables (`TEMPORAL_*`) with Temporal's library: its connection, or a profile of its file.
 * @param given the environment, without empty variables
 * @throws Error one line, never a value
 */
export function readTemporalVariables(given: Record<string, string>): {
  namespace: string | undefined;
  connection: TemporalConnectionOptions;
  certificatesEndAtMs: number;
} {
  // The library reads any other text as false: a key would be sent without TLS.
  if (!/^(true|false|1|0)$/.test(given.TEMPORAL_TLS ?? 'true'))
    throw new Error('TEMPORAL_TLS: must be true or false');
  // It takes a file that does not exist for an empty one.
  if (!existsSync(given.TEMPORAL_CONFIG_FILE ?? '.'))
    throw new Error('TEMPORAL_CONFIG_FILE: there is no such file');
  // A user's file for the `temporal` command must not affect the service.
  const disableFile = given.TEMPORAL_CONFIG_FILE === undefined && given.TEMPORAL_PROFILE === undefined;
  try {
    const { namespace, connectionOptions } = loadClientConnectConfig({ overrideEnvVars: given, disableFile });
    if (Buffer.byteLength(namespace ?? '') > 1000)
      throw new Error('TEMPORAL_NAMESPACE must have at most 1,000 bytes');
    const { address = '127.0.0.1:7233', tls = false, ...others } = connectionOptions;
    const read = /^(?:\[[\da-f:.]+\]|[^\s:/[\]]+)(?::(\d+))?$/i.exec(address);
    if (read === null || Number(read[1] ?? 0) > 65_535)
      throw new Error('TEMPORAL_ADDRESS must be host:port, without https://; TEMPORAL_TLS=true turns TLS on');
    const sent = Object.entries({ ...others.metadata, authorization: others.apiKey ?? '' });
    // The libraries refuse any other, one of them only in each call.
    if (!sent.every(([name, text]) => /^[\da-z_.-]+(?<!-bin)$/.test(name) && /^[ -~]*$/.test(String(text))))
      throw new Error('TEMPORAL_API_KEY and TEMPORAL_GRPC_META_* must be names and values of an HTTP header');
    const certificatesEndAtMs = checkCertificates(given, tls);
    return { namespace, connection: { address, tls, ...others }, certificatesEndAtMs };
  } catch (err) {
    throw new Error(`TEMPORAL_*: ${describeError(err as NodeJS.ErrnoException)}`);
  }
}

/**
 * The library leaves out half a pair and an authority that cannot be read. A pair that does not fit ends the process later with an error
 * that names nothing.
 * @returns when the first of the certificates ends, ms: of several authorities the last
 */
function checkCertificates(
  given: Record<string, string>,
  tls: ClientConnectConfig['connectionOptions']['tls'],
): number {
  if (typeof tls !== 'object' || tls === null) return Number.POSITIVE_INFINITY;
  const { clientCertPair: pair, serverRootCACertificate: authority } = tls;
  const ends: number[] = [];
  try {
    if (authority !== undefined) ends.push(Math.max(...endsOf(certificatesIn(textOf(authority)))));
  } catch {
    throw new Error('TEMPORAL_TLS_SERVER_CA_CERT_* must be certificates in PEM');
  }
  const isGiven = Object.keys(given).some((name) => /^TEMPORAL_TLS_CLIENT_(CERT|KEY)_/.test(name));
  if (!pair && !isGiven) return Math.min(...ends);
  try {
    const own = certificatesIn(textOf(pair?.crt));
    if (own[0]?.checkPrivateKey(createPrivateKey(textOf(pair?.key))))
      return Math.min(...ends, ...endsOf(own));
  } catch {
    // Said below: the error's own text may quote the file.
  }
  throw new Error(
    'TEMPORAL_TLS_CLIENT_CERT_* and TEMPORAL_TLS_CLIENT_KEY_* must be a certificate and its key, both in PEM',
  );
}

const endsOf = (certificates: X509Certificate[]) => certificates.map(({ validTo }) => Date.parse(validTo));
const textOf = (bytes: Uint8Array = Buffer.alloc(0)): string => Buffer.from(bytes).toString();

/** Returns the certificates in a text in PEM. @throws if one cannot be read, or there is none */
export function certificatesIn(pem: string): X509Certificate[] {
  const found = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [''];
  return found.map((one) => new X509Certificate(one));
}

/** The library's further lines quote the file, and an error of the file system shows its path. */
const describeError = ({ code, syscall, message }: NodeJS.ErrnoException): string =>
  syscall === undefined ? (message.split('\n')[0] ?? '') : `a file cannot be read (${code})`;

/** Returns the host of a URL that leads from this machine to a server that listens on `host`. */
export function hostInUrl(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1';
  return host.includes(':') ? `[${host}]` : host;
}
