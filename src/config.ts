/** The settings of the service. All mistakes are reported together, by name, never with a value: it may be a secret. */
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { z } from 'zod';
import {
  readRedisAddress,
  readRedisCertificate,
  readTemporalVariables,
  type TemporalConnectionOptions,
} from './addresses.js';
import { type Constants, constants, idKeptDays, shared } from './constants.js';
import { messageOf } from './log.js';

const oneOf = <const T extends string[]>(...values: T) =>
  z.enum(values, `must be one of ${values.filter(Boolean).join(', ')}`);
/** A number within these bounds, inclusive; without `from` it is above 0. */
function number({ from, to, isWhole = false }: { from?: number; to?: number; isWhole?: boolean }) {
  const least = from === undefined ? 'above 0' : `of at least ${from}`;
  const range = from !== undefined && to ? `from ${from} to ${to}` : to ? `${least}, at most ${to}` : least;
  const error = `must be a ${isWhole ? 'whole number' : 'number'} ${range}`;
  const bounded = z.coerce.number({ error }).max(to ?? Number.MAX_SAFE_INTEGER, error);
  const both = from === undefined ? bounded.positive(error) : bounded.min(from, error);
  return isWhole ? both.int(error) : both;
}
/** With a user `fetch` refuses it by an error that quotes it, and links show it. */
const isWebUrl = (text: string) =>
  URL.canParse(text) && /^https?:\/\/[^@/?#]+([/?#]|$)/i.test(text) && !/\s/.test(text);
const webUrl = z.string().refine(isWebUrl, 'must be an http or https address without a user');
export const webOrigin = z
  .string()
  .refine(
    (text) => isWebUrl(text) && /^[^/]+\/\/[^/?#]+\/?$/.test(text),
    'must be an http or https address without a user and a path, such as https://hooks.example.com',
  );
const port = number({ from: 1, to: 65_535, isWhole: true });
const flag = oneOf('true', 'false', '1', '0', '').transform((v) => v === 'true' || v === '1');
const positive = number({});
const seconds = number({ to: 366 * 86_400 });
const list = z.string().transform((v) => {
  const items = v.split(',').map((s) => s.trim());
  return items.filter(Boolean);
});
const listOf = (isValid: (item: string) => boolean, items: string) =>
  list.refine((l) => l.every(isValid), { message: `must be a comma-separated list of ${items}` });
const scheduleSeconds = listOf((s) => Number(s) > 0 && Number.isFinite(Number(s)), 'positive seconds')
  .refine((l) => l.length > 0, { message: 'must be a comma-separated list of positive seconds' })
  .transform((l) => l.map(Number));
/** The library also takes `10/8`, for 0.0.0.10/8, and reads 010 as octal. */
const isCidr = (text: string) => isIP(text.replace(/\/.*/s, '')) !== 0 && ipaddr.isValidCIDR(text);
const isAddressOrCidr = (text: string) => isIP(text) !== 0 || isCidr(text);
const cidrs = listOf(isCidr, 'CIDR ranges such as 10.0.0.0/8');
const cidrsOrAddresses = listOf(isAddressOrCidr, 'IP addresses or CIDR ranges');
const isFingerprint = (text: string) => /^[\da-f]{64}$/i.test(text.replaceAll(':', ''));
const fingerprints = listOf(isFingerprint, 'SHA-256 fingerprints').transform((l) =>
  l.map((s) => s.replaceAll(':', '').toLowerCase()),
);
const proxyUrl = z
  .string()
  .regex(/^http:\/\/([^/?#@\s]*@)?([\w.-]+|\[[\da-f:.]+\])(:\d{1,5})?\/?$/i, {
    error: 'must be http://host:port, with user:password@ if needed, percent-encoded (%40 for @)',
    abort: true,
  })
  .refine((url) => URL.canParse(url) && isEncoded(url), 'must have a port up to 65535, and % written as %25');
const isPort = (text: string) => /^\d+$/.test(text) && port.safeParse(text).success;
const ports = listOf(isPort, 'ports from 1 to 65535').transform((l) => l.map(Number));
/** A text that ends in digits is a mistyped address, or one that a URL would read as an address (127.1). */
const isName = (text: string) =>
  /^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z]([a-z0-9-]{0,61}[a-z0-9])?\.?$/i.test(text);
const isNameOrCidr = (text: string) => isAddressOrCidr(text) || isName(text);
const namesOrCidrs = listOf(isNameOrCidr, 'host names, IP addresses or CIDR ranges');

function isEncoded(text: string): boolean {
  try {
    return decodeURIComponent(text) !== '';
  } catch {
    return false;
  }
}

/** Only a provider on this machine may use http. */
const isSafeIssuer = (url: string) => /^https:|^http:\/\/(127\.0\.0\.1|localhost|\[::1\])(:|\/|$)/.test(url);

/** The name of a claim may be an address, or a URN with colons (Zitadel). */
const rolesPattern = /^((?:https?:\/\/|urn:)[^=,]*|[^:]+):((?:[^=,]+=(?:look|support|admin),?)+)$/;

/** The first key encrypts. */
const secretsKey = list
  .refine((l) => l.length > 0 && l.every((k) => /^[A-Za-z0-9_-]{1,16}:[A-Za-z0-9+/_-]{43}=?$/.test(k)), {
    message: 'must be <key id>:<base64 of 32 bytes>, with older keys after a comma',
  })
  // Secrets stored in plain text carry this name instead of a key's id (redis/records/secretBox.ts).
  .refine((l) => l.every((k) => !k.startsWith('plain:')), { message: 'must not have a key id "plain"' })
  // A secret names the id of its key: of two keys with one id only the first would ever be tried.
  .refine((l) => new Set(l.map((k) => k.split(':')[0])).size === l.length, 'must give each key another id')
  .transform((l) =>
    l.map((k) => {
      const [id, value] = k.split(':') as [string, string];
      return { id, key: Buffer.from(value, 'base64') };
    }),
  );

const redisUrl = z.string().superRefine((url, ctx) => {
  try {
    readRedisAddress(url);
  } catch (err) {
    ctx.addIssue({ code: 'custom', message: messageOf(err) });
  }
});

/** Every setting of the service, with its default. docs/reference/settings.md says what each means. */
export const environmentSchema = z.object({
  PORT: port.default(3000),
  HOST: z.string().default('127.0.0.1'),
  ADMIN_HOST: z.string().default('127.0.0.1'),
  ADMIN_PORT: port.default(9464),
  REDIS_URL: redisUrl.default('redis://127.0.0.1:6379'),
  REDIS_CERTIFICATE_FILE: z.string().optional(),
  REDIS_CERTIFICATE_KEY_FILE: z.string().optional(),
  KEY_PREFIX: z.string().max(64, 'must have at most 64 characters').default(''),
  TEMPORAL_ADDRESS: z.string().default('127.0.0.1:7233'),
  TEMPORAL_NAMESPACE: z.string().default('default'),
  TEMPORAL_UI_URL: webUrl.optional(),
  /** A part of the name of each workflow, of which Temporal takes 1,000 bytes. */
  TASK_QUEUE: z
    .string()
    .regex(/^(?!\/_sys\/).{0,200}(?<!-upkeep)$/s, 'must have up to 200 characters, no /_sys/ and no -upkeep')
    .default('notifications'),
  ACCESS_TOKEN_TTL_SECONDS: seconds.default(3600),
  TOKEN_RATE_PER_SECOND: number({ isWhole: true }).default(20),
  ACCOUNT_RATE_PER_SECOND: positive.default(10),
  TRUSTED_PROXIES: cidrs.default([]),
  ALLOW_HTTP_TARGETS: flag.default(false),
  ALLOWED_TARGET_CIDRS: cidrs.default([]),
  VERIFY_REGISTRATIONS: flag.default(false),
  OUTGOING_PROXY: proxyUrl.optional(),
  OUTGOING_PROXY_RESOLVES: flag.default(false),
  SOURCE_ADDRESSES: cidrsOrAddresses.default([]),
  TRUSTED_ROOTS_FILE: z.string().optional(),
  DISTRUSTED_ROOTS: fingerprints.default([]),
  RETRY_SCHEDULE_SECONDS: scheduleSeconds.default([5, 30, 120, 600, 1800, 3600, 7200, 14400]),
  ATTEMPT_TIMEOUT_SECONDS: number({ to: shared.longestAttemptMs / 1000 }).default(10),
  OWED_RETENTION_DAYS: number({ to: 366 }).default(30),
  FAILED_RETENTION_DAYS: number({ to: 3650 }).default(90),
  SEGMENT_RETENTION_DAYS: number({ to: 3650 }).optional(),
  MAX_IN_FLIGHT: number({ from: 1, to: 10_000, isWhole: true }).default(16),
  DRAIN_PER_SECOND: positive.default(200),
  WORKFLOWS_PER_SECOND: number({ to: 10_000 }).default(10),
  SEARCH_ATTRIBUTE_BYTES: number({ from: 2048, to: 1_048_576, isWhole: true }).default(2048),
  REDIS_DURABILITY: oneOf('confirmed', 'trusted').default('confirmed'),
  REDIS_ACK_REPLICAS: number({ from: 0, to: 10, isWhole: true }).default(0),
  OTEL_TRACES_EXPORTER: oneOf('otlp', 'none').default('none'),
  SECRETS_KEY: secretsKey.optional(),
  SHUTDOWN_DELAY_SECONDS: number({ from: 0, to: 300 }).default(0),
  PUBLIC_URL: webOrigin.optional(),
  OPERATOR_URL: webOrigin.optional(),
  OPERATOR_OIDC_ISSUER: z
    .string()
    .refine((url) => isWebUrl(url) && isSafeIssuer(url), 'must be an https address without a user')
    .optional(),
  OPERATOR_OIDC_CLIENT_ID: z.string().optional(),
  OPERATOR_OIDC_CLIENT_SECRET: z.string().optional(),
  OPERATOR_OIDC_ROLES: z
    .string()
    .regex(rolesPattern, 'must be <claim>:<value>=<role>,... with the roles look, support, admin')
    .default('role:look=look,support=support,admin=admin'),
  OPERATOR_CONTACT: z.string().default('your account manager'),
  LOG_LEVEL: oneOf('fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent').default('info'),
  OWN_PORTS: ports.default([]),
  OWN_ADDRESSES: namesOrCidrs.default([]),
});

/** Names settings that contradict each other also where others are wrong. */
const always = { when: () => true };
const settings = environmentSchema.superRefine((given, ctx) => {
  const wrong = (name: string, message: string) => ctx.addIssue({ code: 'custom', path: [name], message });
  if (/^rediss?\+cluster:/.test(given.REDIS_URL) && /[{}]/.test(given.KEY_PREFIX))
    wrong('KEY_PREFIX', 'must have no braces: in a cluster they would put every key on one node');
  try {
    if (readRedisCertificate(given) && !given.REDIS_URL.startsWith('rediss'))
      wrong('REDIS_CERTIFICATE_FILE', 'needs TLS: begin REDIS_URL with rediss');
  } catch (err) {
    wrong('REDIS_CERTIFICATE_FILE', messageOf(err));
  }
  if (given.REDIS_DURABILITY === 'trusted' && given.REDIS_ACK_REPLICAS > 0)
    wrong('REDIS_ACK_REPLICAS', 'must be 0 with REDIS_DURABILITY=trusted, which asks nothing');
  if ((given.OPERATOR_OIDC_ISSUER === undefined) !== (given.OPERATOR_OIDC_CLIENT_ID === undefined))
    wrong('OPERATOR_OIDC_CLIENT_ID', 'must be set together with OPERATOR_OIDC_ISSUER');
  // Earlier the asset may still be owed, or the record of its last notification may still exist.
  const fewest = given.OWED_RETENTION_DAYS + idKeptDays;
  const { SEGMENT_RETENTION_DAYS: days = fewest } = given;
  if (days > 0 && days < fewest)
    wrong('SEGMENT_RETENTION_DAYS', `must be at least ${fewest} (OWED_RETENTION_DAYS + ${idKeptDays})`);
}, always);

/** The settings and the constants; the last two are what Temporal's library reads from the variables `TEMPORAL_*`. */
export type Config = z.output<typeof environmentSchema> &
  Constants & { temporalConnection: TemporalConnectionOptions; certificatesEndAtMs: number };

export class ConfigError extends Error {
  override name = 'ConfigError';
}

/**
 * Reads the settings, without the line end of a file around a value. An empty variable counts as not set.
 * @param defaults for what the environment does not set
 * @throws ConfigError naming every wrong setting, one per line, never its value.
 */
export function readConfig(
  env: NodeJS.ProcessEnv = process.env,
  defaults: Record<string, string> = {},
): Config {
  const trimmed = Object.entries(env).map(([name, value = '']) => [name, String(value).trim()] as const);
  const given = { ...defaults, ...Object.fromEntries(trimmed.filter(([, value]) => value)) };
  const parsed = settings.safeParse(given);
  const wrong = [...new Set((parsed.error?.issues ?? []).map((i) => `${i.path.join('.')}: ${i.message}`))];
  try {
    const { namespace, connection, certificatesEndAtMs } = readTemporalVariables(given);
    if (parsed.success && wrong.length === 0) {
      return {
        ...constants,
        ...parsed.data,
        TEMPORAL_ADDRESS: connection.address,
        TEMPORAL_NAMESPACE: namespace ?? parsed.data.TEMPORAL_NAMESPACE,
        temporalConnection: connection,
        certificatesEndAtMs,
      };
    }
  } catch (err) {
    wrong.push(messageOf(err));
  }
  throw new ConfigError(`wrong settings:\n${wrong.map((line) => `  ${line}`).join('\n')}`);
}

export function redisOptions(config: Config) {
  const { REDIS_URL, KEY_PREFIX, REDIS_DURABILITY, REDIS_ACK_REPLICAS } = config;
  return {
    url: REDIS_URL,
    certificate: readRedisCertificate(config),
    prefix: KEY_PREFIX,
    /** If trusted, no write is confirmed. Otherwise a write is safe once it is on the disks of the server and of so many replicas. */
    durability: { trusted: REDIS_DURABILITY === 'trusted', ackReplicas: REDIS_ACK_REPLICAS },
    settings: deliverySettings(config),
  };
}

export type Durability = ReturnType<typeof redisOptions>['durability'];

/** The settings that decide when notifications are sent, and what is kept: the scripts get them from `Db`. */
export type DeliverySettings = ReturnType<typeof deliverySettings>;

export function deliverySettings(config: Config) {
  return {
    retryWindowMs: config.retryWindowMs,
    failingAfter: config.failingAfter,
    probeScheduleMs: config.probeScheduleMs,
    suspendAfterMs: config.suspendAfterMs,
    suspendMinimumAttempts: config.suspendMinimumAttempts,
    retryScheduleMs: config.RETRY_SCHEDULE_SECONDS.map((s) => s * 1000),
    leaseMs: config.ATTEMPT_TIMEOUT_SECONDS * 1000 + shared.besideAttemptMs,
    retentionMs: config.OWED_RETENTION_DAYS * 86_400_000,
    /** Attempts in flight of a client without a bound of its own. */
    maxInFlight: config.MAX_IN_FLIGHT,
    /** Of every client after an outage. */
    drainPerSecond: config.DRAIN_PER_SECOND,
    /** After how long without an event an asset's known segments are forgotten; 0: never. */
    keepSegmentsSeconds: Math.ceil((config.SEGMENT_RETENTION_DAYS ?? 0) * 86_400),
    /** How long a failed asset is kept, so that it can be recovered. */
    keepFailedMs: Math.ceil(config.FAILED_RETENTION_DAYS * 86_400_000),
  };
}

/** The longest that a process takes to end, an attempt's lease and closing among it: then it cuts itself off. */
export const endsWithinSeconds = (config: Config): number =>
  config.SHUTDOWN_DELAY_SECONDS + config.ATTEMPT_TIMEOUT_SECONDS + 30;

/** How long who ends a process waits before it is killed: its own last word comes first. */
export const killedAfterSeconds = (config: Config): number => endsWithinSeconds(config) + 5;

const roleOrder = ['look', 'support', 'admin'] as const;

/** Returns the claim that names a person's roles, and the values with their roles, the highest last. */
export function operatorRoles({ OPERATOR_OIDC_ROLES: given }: Config) {
  const [, claim = '', pairs = ''] = rolesPattern.exec(given) ?? [];
  const roles = roleOrder.flatMap((role) =>
    [...pairs.matchAll(/([^=,]+)=(\w+)/g)].flatMap(([, value = '', one]) =>
      one === role ? [[value.trim(), role] as const] : [],
    ),
  );
  return { claim, roles };
}

/** Returns whether the environment itself sets the Redis server. */
export const isRedisGiven = (): boolean => Boolean(process.env.REDIS_URL?.trim());

/** Returns whether the environment itself sets the Temporal server, by its address or by a profile. */
export function isTemporalGiven(): boolean {
  const { TEMPORAL_ADDRESS, TEMPORAL_PROFILE, TEMPORAL_CONFIG_FILE } = process.env;
  return [TEMPORAL_ADDRESS, TEMPORAL_PROFILE, TEMPORAL_CONFIG_FILE].some((given) => given?.trim());
}
