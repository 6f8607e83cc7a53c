/** The only place that finds out why Temporal does not serve, with words for people. The libraries hide most reasons of a connection. */
import { connect as connectTcp, isIP } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { Connection, defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client';
import { NamespaceNotFoundError } from '@temporalio/common';
import type { TemporalConnectionOptions } from '../addresses.js';

const keys = 'TEMPORAL_API_KEY (or the certificate of TEMPORAL_TLS_CLIENT_CERT_PATH)';

const reasons = {
  away: ['Temporal does not answer.', 'Start it, or correct TEMPORAL_ADDRESS.'],
  unknown_host: ['The host name in TEMPORAL_ADDRESS cannot be looked up.', 'Correct TEMPORAL_ADDRESS.'],
  speaks_tls: ['The port of Temporal expects TLS.', 'Set TEMPORAL_TLS=true.'],
  tls: [
    'No TLS connection to Temporal can be made.',
    'The port may speak no TLS (then leave TEMPORAL_TLS out); its certificate must name the host (TEMPORAL_TLS_SERVER_NAME) and TEMPORAL_TLS_SERVER_CA_CERT_PATH its authority; it may want a client certificate. A process reads these files at its start only.',
  ],
  credentials: ['Temporal does not accept who calls (UNAUTHENTICATED).', `Correct ${keys}.`],
  right: ['Temporal refuses this caller the call (PERMISSION_DENIED).', `Give it rights: ${keys}.`],
  namespace: ['Temporal has no such namespace.', 'Create it, or correct TEMPORAL_NAMESPACE.'],
  limit: ['A limit of Temporal is reached (RESOURCE_EXHAUSTED).', 'Raise it, or relieve the server.'],
  not_ready: [
    'Temporal is not ready, its store is away or full, or it is another server: it accepts connections, and does not serve.',
    'Look at its log, or correct TEMPORAL_ADDRESS. If https_proxy or http_proxy is set, put its host into no_proxy.',
  ],
  invalid: [
    'Temporal refuses what a call contains (INVALID_ARGUMENT).',
    'The namespace may have a search attribute with another type, or SEARCH_ATTRIBUTE_BYTES may be too large: "operator doctor" says which.',
  ],
  other: [
    'Temporal refuses a call.',
    'Look at its log, or correct TEMPORAL_ADDRESS: it may be another server.',
  ],
} as const;

export type TemporalReason = keyof typeof reasons;
const lasting: readonly TemporalReason[] = ['speaks_tls', 'tls', 'credentials', 'right', 'namespace'];

/** gRPC's codes */
const byCode: Record<number, TemporalReason> = {
  ...Object.fromEntries([6, 11, 12, 15].map((code) => [code, 'other'])),
  3: 'invalid',
  5: 'namespace',
  7: 'right',
  8: 'limit',
  16: 'credentials',
};

/** Returns why the server refused a call, if its answer says so. */
export const reasonOf = (err: unknown): TemporalReason | undefined => byCode[grpcCodeOf(err) ?? 0];

/** Returns the reason that a code stands for, by its name; undefined: none, as for a task that has ended meanwhile. */
export const reasonNamed = (code: string): TemporalReason | undefined =>
  /NOT_FOUND|CANCELLED/.test(code) ? undefined : (byName[code] ?? 'away');
const byName: Record<string, TemporalReason> = {
  ...Object.fromEntries(['ALREADY_EXISTS', 'OUT_OF_RANGE', 'UNIMPLEMENTED'].map((code) => [code, 'other'])),
  INVALID_ARGUMENT: 'invalid',
  PERMISSION_DENIED: 'right',
  RESOURCE_EXHAUSTED: 'limit',
  UNAUTHENTICATED: 'credentials',
};

/**
 * Finds out why a call or a connection failed; tries a connection of its own if no answer said why.
 * @returns `lasts`: waiting does not cure it
 */
export async function explainTemporal(err: unknown, options: TemporalConnectionOptions) {
  const answered = reasonOf(err);
  // These calls contain nothing that a server of Temporal would refuse.
  const known = answered === 'invalid' ? 'other' : answered;
  const gave = known === 'other' ? `gRPC ${grpcCodeOf(err)}` : undefined;
  const tried: Tried = known === undefined ? await tryConnection(options) : { reason: known, code: gave };
  const { reason, code } = tried.reason === 'not_ready' ? await askVersion(options) : tried;
  const [says, todo] = reasons[reason];
  const named = code === undefined ? says : `${says.slice(0, -1)} (${code}).`;
  return { reason, says: named, todo, lasts: lasting.includes(reason) };
}

/** Returns why a call failed, by its answer alone. */
export const saysOf = (err: unknown): string => reasons[reasonOf(err) ?? 'away'][0];

export const reasonsOf = (reason: TemporalReason): readonly [says: string, todo: string] => reasons[reason];

/** Says why starts were refused for good, and what to do. @param reason of {@link reasonOf}; another: a bug of the service */
export const saysOfRefused = (reason: string): string =>
  reason in reasons ? reasons[reason as TemporalReason].join(' ') : 'A bug of the service: see the log.';

/** Returns what the log says of a failed call: the text of a server's answer stays with the server. */
export const toldOf = (err: unknown) =>
  grpcCodeOf(err) === undefined
    ? { err }
    : { reason: reasonOf(err) ?? 'away', says: saysOf(err), do: reasons[reasonOf(err) ?? 'away'][1] };

interface Tried {
  reason: TemporalReason;
  code?: string | undefined;
}

/** The library repeats a call that met a limit until the caller's time is over, which then says nothing. */
export const withoutRetries = () => [makeGrpcRetryInterceptor(defaultGrpcRetryOptions({ maxAttempts: 1 }))];

/** A worker's connection hides the code with which a server refuses it. */
async function askVersion(options: TemporalConnectionOptions): Promise<Tried> {
  const connection = Connection.lazy({ ...options, interceptors: withoutRetries() });
  try {
    const until = Date.now() + greetWithinMs;
    await connection.withDeadline(until, () => connection.workflowService.getSystemInfo({}));
    return { reason: 'not_ready' };
  } catch (err) {
    return { reason: reasonOf(err) ?? 'not_ready' };
  } finally {
    await connection.close();
  }
}

async function tryConnection({ address, tls }: TemporalConnectionOptions): Promise<Tried> {
  const [, host = '', port = '7233'] = /^\[?(.*?)\]?(?::(\d+))?$/.exec(address) ?? [];
  // One address may have many servers, as Temporal Cloud's: Node does not name the host by itself.
  const to = { host, port: Number(port), servername: isIP(host) === 0 ? host : '' };
  if (tls) {
    const { serverNameOverride, serverRootCACertificate, clientCertPair } = tls === true ? {} : tls;
    const ca = serverRootCACertificate === undefined ? {} : { ca: Buffer.from(serverRootCACertificate) };
    const own = clientCertPair && {
      cert: Buffer.from(clientCertPair.crt),
      key: Buffer.from(clientCertPair.key),
    };
    const named = serverNameOverride !== undefined && { servername: serverNameOverride };
    return await greet({ ...to, ...ca, ...own, ...named });
  }
  const plain = await greet(to, false);
  if (plain.reason !== 'away' || plain.code === 'ECONNREFUSED') return plain;
  // Whoever speaks TLS ends a connection that does not.
  const { code } = await greet({ ...to, rejectUnauthorized: false });
  return code === undefined ? { reason: 'speaks_tls' } : plain;
}

/** What a client of HTTP/2 sends first: the preface, and a frame of settings. */
const preface = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]),
]);
const greetWithinMs = 2000;

function greet(options: ConnectionOptions & { host: string; port: number }, isTls = true): Promise<Tried> {
  return new Promise((resolve) => {
    const socket = isTls ? connectTls({ ...options, ALPNProtocols: ['h2'] }) : connectTcp(options);
    const end = (tried: Tried) => {
      socket.destroy();
      resolve(tried);
    };
    socket.setTimeout(greetWithinMs, () => end({ reason: 'away', code: 'ETIMEDOUT' }));
    socket.once(isTls ? 'secureConnect' : 'connect', () => socket.write(preface));
    socket.once('data', () => end({ reason: 'not_ready' }));
    socket.once('close', () => end({ reason: isTls ? 'tls' : 'away', code: 'ECONNRESET' }));
    socket.once('error', ({ code = '' }: NodeJS.ErrnoException) => {
      const unknown = ['ENOTFOUND', 'EAI_AGAIN'].includes(code);
      const isAway = !isTls || /^E(CONNREFUSED|HOSTUNREACH|NETUNREACH|TIMEDOUT)$/.test(code);
      end({ reason: unknown ? 'unknown_host' : isAway ? 'away' : 'tls', code });
    });
  });
}

/** Returns the gRPC code of an error or of its cause. */
export function grpcCodeOf(err: unknown): number | undefined {
  for (let e = err; e instanceof Error; e = e.cause) {
    const { code } = e as Error & { code?: unknown };
    if (typeof code === 'number') return code;
    // The client makes this error of a code, and drops the code.
    if (e instanceof NamespaceNotFoundError) return 5;
  }
  return undefined;
}
