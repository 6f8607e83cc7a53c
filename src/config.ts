/** The only reader of process.env. Reports all mistakes together, by name, never with a value: it may be a secret. */
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { z } from 'zod';
import { redisUrlOf, wrongRedis } from './redisSettings.js';
import { wrongRetention } from './retentionSettings.js';
import { namesTemporal, readClientSettings, type TemporalConnectionOptions } from './temporalSettings.js';

const webUrl = z.url({ protocol: /^https?$/ });
const port = z.coerce.number().int().min(1).max(65535);
const flag = z.enum(['true', 'false', '1', '0', '']).transform((v) => v === 'true' || v === '1');
const seconds = z.coerce
  .number()
  .positive()
  .max(366 * 86_400);
const list = z.string().transform((v) =>
  v
    .split(',')
    .map((s) => s.trim())
    .filter(Boolean),
);
const scheduleSeconds = list
  .refine((l) => l.length > 0 && l.every((s) => Number(s) > 0 && Number.isFinite(Number(s))), {
    message: 'must be a comma-separated list of positive seconds',
  })
  .transform((l) => l.map(Number));
const cidrs = list.refine((l) => l.every((c) => ipaddr.isValidCIDR(c)), {
  message: 'must be a comma-separated list of CIDR ranges such as 10.0.0.0/8',
});

const ports = list
  .refine((l) => l.every((text) => /^\d+$/.test(text) && port.safeParse(text).success), {
    message: 'must be a comma-separated list of ports from 1 to 65535',
  })
  .transform((l) => l.map(Number));

/** Names, addresses and CIDR ranges. */
const namesOrCidrs = list.refine((l) => l.every(isNameOrCidr), {
  message: 'must be a comma-separated list of host names, IP addresses or CIDR ranges',
});

function isNameOrCidr(text: string): boolean {
  if (isIP(text) !== 0 || ipaddr.isValidCIDR(text)) return true;
  // A text that ends in digits is a mistyped address, or one that a URL would read as an address (127.1).
  return /^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z]([a-z0-9-]{0,61}[a-z0-9])?\.?$/i.test(text);
}

/** `SECRETS_KEY`: `<key id>:<base64 of 32 bytes>[,<older key id>:<base64>...]`; the first one encrypts. */
const secretsKey = list
  .refine((l) => l.length > 0 && l.every((k) => /^[A-Za-z0-9_-]{1,16}:[A-Za-z0-9+/_-]{43}=?$/.test(k)), {
    message: 'must be <key id>:<base64 of 32 bytes>, with older keys after a comma',
  })
  // Secrets stored in plain text carry this name instead of a key's id (redis/records/secretBox.ts).
  .refine((l) => l.every((k) => !k.startsWith('plain:')), { message: 'must not have a key id "plain"' })
  // A secret names the id of its key: of two keys with one id only the first would ever be tried.
  .refine((l) => new Set(l.map((k) => k.split(':')[0])).size === l.length, {
    message: 'must give every key a different id',
  })
  .transform((l) =>
    l.map((k) => {
      const [id, value] = k.split(':') as [string, string];
      return { id, key: Buffer.from(value, 'base64') };
    }),
  );

/** The rules of Temporal for a deployment's name and a build id. */
const versionPart = z
  .string()
  .regex(/^(?!__)\S{1,200}$/, 'must have 1 to 200 characters, no spaces, and no "__" at the beginning');

/** Every environment variable the service reads, with its default. Times in the unit of the name. */
export const environmentSchema = z.object({
  PORT: port.default(3000),
  HOST: z.string().default('127.0.0.1'),
  /** Metrics and health checks of every role; by default not on the callers' network. */
  ADMIN_HOST: z.string().default('127.0.0.1'),
  ADMIN_PORT: port.default(9464),
  REDIS_URL: z
    .string()
    .regex(/^rediss?(\+(sentinel|cluster))?:\/\//, 'must start with redis:// or rediss://')
    .default('redis://127.0.0.1:6379'),
  /** The URL names nodes of a cluster. */
  REDIS_CLUSTER: flag.default(false),
  KEY_PREFIX: z.string().max(64).default(''),
  /** This and the following are Temporal's standard client settings, read by `temporalSettings.ts`. */
  TEMPORAL_ADDRESS: z.string().default('127.0.0.1:7233'),
  TEMPORAL_NAMESPACE: z.string().default('default'),
  TEMPORAL_CONFIG_FILE: z.string().optional(),
  TEMPORAL_PROFILE: z.string().optional(),
  TEMPORAL_API_KEY: z.string().optional(),
  TEMPORAL_TLS: flag.optional(),
  TEMPORAL_TLS_CLIENT_CERT_PATH: z.string().optional(),
  TEMPORAL_TLS_CLIENT_CERT_DATA: z.string().optional(),
  TEMPORAL_TLS_CLIENT_KEY_PATH: z.string().optional(),
  TEMPORAL_TLS_CLIENT_KEY_DATA: z.string().optional(),
  TEMPORAL_TLS_SERVER_CA_CERT_PATH: z.string().optional(),
  TEMPORAL_TLS_SERVER_CA_CERT_DATA: z.string().optional(),
  TEMPORAL_TLS_SERVER_NAME: z.string().optional(),
  /** Address of the Temporal UI, to which the operator's commands link. */
  TEMPORAL_UI_URL: webUrl.optional(),
  TASK_QUEUE: z.string().default('notifications'),
  /** The version of the workers, if a build id is set. Temporal's Worker Controller sets the same names. */
  TEMPORAL_DEPLOYMENT_NAME: versionPart.regex(/^[^.:]*$/, 'must be without "." and ":"').optional(),
  TEMPORAL_WORKER_BUILD_ID: versionPart.optional(),
  ACCESS_TOKEN_TTL_SECONDS: seconds.default(3600),
  TOKEN_RATE_PER_SECOND: z.coerce.number().int().positive().default(100),
  /** Calls of one account that look up a name, and separately those that read many records; over all processes. */
  ACCOUNT_RATE_PER_SECOND: z.coerce.number().positive().default(10),
  TRUSTED_PROXIES: cidrs.or(z.literal('').transform(() => [])).default([]),
  ALLOW_HTTP_TARGETS: flag.default(false),
  ALLOWED_TARGET_CIDRS: cidrs.or(z.literal('').transform(() => [])).default([]),
  RETRY_SCHEDULE_SECONDS: scheduleSeconds.default([5, 30, 120, 600, 1800, 3600, 7200, 14400]),
  RETRY_WINDOW_SECONDS: seconds.default(432_000),
  ATTEMPT_TIMEOUT_SECONDS: seconds.max(60).default(10),
  FAILING_AFTER: z.coerce.number().int().min(1).default(5),
  PROBE_SCHEDULE_SECONDS: scheduleSeconds.default([10, 30, 60, 120, 300]),
  SUSPEND_AFTER_SECONDS: seconds.default(432_000),
  OWED_RETENTION_DAYS: z.coerce.number().positive().max(366).default(30),
  /** After how long without an event an asset's known segments are forgotten; absent: never. */
  SEGMENT_RETENTION_DAYS: z.coerce.number().positive().max(3650).optional(),
  MAX_IN_FLIGHT: z.coerce.number().int().min(1).max(10_000).default(16),
  DRAIN_PER_SECOND: z.coerce.number().positive().default(200),
  /** Workflow starts of all processes together; events in between share the next. */
  WORKFLOWS_PER_SECOND: z.coerce.number().positive().max(10_000).default(10),
  /** `trusted`: the store is durable by itself. Otherwise a write counts once Redis confirms that it is on its disk. */
  REDIS_DURABILITY: z.enum(['confirmed', 'trusted']).default('confirmed'),
  /** Replicas that must have an accepted event on their disks too. */
  REDIS_ACK_REPLICAS: z.coerce.number().int().min(0).max(10).default(0),
  CONNECTIONS_PER_ORIGIN: z.coerce.number().int().min(1).max(10_000).default(512),
  MAX_SOCKETS: z.coerce.number().int().min(1).max(100_000).default(4096),
  /** `otlp` turns tracing on (`openTelemetry.ts`); the library reads the other OTEL_* variables itself. */
  OTEL_TRACES_EXPORTER: z.enum(['otlp', 'none']).default('none'),
  OTEL_SDK_DISABLED: flag.default(false),
  OTEL_EXPORTER_OTLP_ENDPOINT: webUrl.optional(),
  OTEL_EXPORTER_OTLP_HEADERS: z.string().optional(),
  OTEL_EXPORTER_OTLP_PROTOCOL: z.literal('http/protobuf', 'must be http/protobuf').optional(),
  OTEL_SERVICE_NAME: z.string().optional(),
  OTEL_RESOURCE_ATTRIBUTES: z.string().optional(),
  OTEL_TRACES_SAMPLER: z.string().optional(),
  OTEL_TRACES_SAMPLER_ARG: z.string().optional(),
  /** Sends each attempt's own traceparent to the receiver. */
  TRACEPARENT_TO_RECEIVERS: flag.default(false),
  SECRETS_KEY: secretsKey.optional(),
  /** Time between a SIGTERM and the end of an API, in which the balancer sees /readyz fail and sends no more. */
  SHUTDOWN_DELAY_SECONDS: z.coerce.number().min(0).max(300).default(0),
  /** Address at which browsers reach this service, for links to the console; without it a call's own Host. */
  PUBLIC_URL: webUrl.optional(),
  OPERATOR_CONTACT: z.string().min(1).default('your account manager'),
  LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
  /** Ports of this machine to which no notification may be sent, beside the service's own; `npm start` sets it. */
  OWN_PORTS: ports.default([]),
  /** Addresses under which callers reach the service and that its interfaces do not show: behind a NAT or a balancer. */
  OWN_ADDRESSES: namesOrCidrs.default([]),
});

/**
 * `TEMPORAL_ADDRESS` and `TEMPORAL_NAMESPACE` come from a profile if the environment does not set them; the scheme of
 * `REDIS_URL` tells whether it names a cluster (redisSettings.ts).
 */
export type Config = z.output<typeof environmentSchema> & { temporalConnection: TemporalConnectionOptions };

export class ConfigError extends Error {
  override name = 'ConfigError';
}

/**
 * Reads the settings. An empty variable counts as not set.
 * @throws ConfigError naming every wrong setting, one per line, never its value.
 */
export function readConfig(env: NodeJS.ProcessEnv = process.env): Config {
  const given = givenIn(env);
  const parsed = environmentSchema.safeParse(given);
  const wrong = (parsed.error?.issues ?? []).map((i) => `${i.path.join('.')}: ${i.message}`);
  if (parsed.success) wrong.push(...wrongRedis(parsed.data), ...wrongRetention(parsed.data));
  try {
    const { connection, ...its } = readClientSettings(given);
    if (parsed.success && wrong.length === 0) {
      const address = its.address ?? parsed.data.TEMPORAL_ADDRESS;
      return {
        ...parsed.data,
        REDIS_URL: redisUrlOf(parsed.data),
        TEMPORAL_ADDRESS: address,
        TEMPORAL_NAMESPACE: its.namespace ?? parsed.data.TEMPORAL_NAMESPACE,
        temporalConnection: { address, ...connection },
      };
    }
  } catch (err) {
    wrong.push(err instanceof Error ? err.message : String(err));
  }
  throw new ConfigError(`wrong settings:\n${wrong.map((line) => `  ${line}`).join('\n')}`);
}

function givenIn(env: NodeJS.ProcessEnv): Record<string, string> {
  const all = Object.entries(env);
  return Object.fromEntries(all.filter((entry): entry is [string, string] => (entry[1] ?? '') !== ''));
}

/** The same, with `defaults` for settings that the environment does not set. @throws ConfigError */
export function readConfigBeside(
  defaults: Readonly<Record<string, string>>,
  env: NodeJS.ProcessEnv = process.env,
): Config {
  return readConfig({ ...defaults, ...givenIn(env) });
}

/** Returns whether the environment itself sets this. */
export function isGiven(
  name: keyof typeof environmentSchema.shape,
  env: NodeJS.ProcessEnv = process.env,
): boolean {
  return (env[name] ?? '') !== '';
}

/** Returns whether the environment itself sets the Temporal server, by its address or by a profile. */
export function isTemporalGiven(env: NodeJS.ProcessEnv = process.env): boolean {
  return namesTemporal(env);
}

/** The name under which the operator's commands are recorded, without `--as`. */
export function operatorName(env: NodeJS.ProcessEnv = process.env): string | undefined {
  return env.OPERATOR_NAME || undefined;
}

/** Set by the image, whose login names no person. */
export function isInContainer(env: NodeJS.ProcessEnv = process.env): boolean {
  return env.IN_CONTAINER === 'true';
}

/** The login of the person who called `sudo`, if any. */
export function sudoLogin(env: NodeJS.ProcessEnv = process.env): string | undefined {
  return env.SUDO_USER || undefined;
}
