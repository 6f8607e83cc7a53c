/** Checks of Redis: its settings and its state. */
import type { Redis } from 'ioredis';
import type { Config } from '../../config.js';
import type { Db } from '../../redis/connection/db.js';
import { createSecretBox, SecretUnreadable } from '../../redis/records/secretBox.js';
import { useOfField } from '../../redis/records/signingSecrets.js';
import { askRedis } from '../servers.js';
import { span } from '../terminal/words.js';
import { type Finding, fail, ok, warn } from './finding.js';

type Values = Record<string, string | undefined>;

export async function checkRedis(db: Db, config: Config): Promise<Finding[]> {
  const ofServers = await Promise.all(
    db.nodes.primaries().map(async (server) => {
      const findings = await checkServer(server, config);
      if (!db.nodes.isCluster) return findings;
      const { host, port } = server.options;
      return findings.map((finding) => ({ ...finding, check: `${finding.check} ${host}:${port}` }));
    }),
  );
  return [await ofAnswer(db), ...ofServers.flat(), await ofSecrets(db, config)];
}

async function ofAnswer(db: Db): Promise<Finding> {
  const { answerMs, slow, refuses } = await askRedis(db);
  const problem = refuses ?? slow;
  if (problem === undefined) return ok('redis', `It answers in ${span(answerMs)}.`);
  return fail('redis', problem, 'Check its host, its memory, its disk and SLOWLOG GET.');
}

async function checkServer(redis: Redis, config: Config): Promise<Finding[]> {
  const info = fieldsOf(await redis.info());
  const settings = await readSettings(redis);
  return [...ofSettings(settings, config), ofMemory(info), ofReplicas(info, config)];
}

function ofSettings(settings: Values | undefined, config: Config): Finding[] {
  if (settings !== undefined) return [ofPersistence(settings, config), ofPolicy(settings)];
  const todo =
    'Make sure that the provider sets: appendonly yes, appendfsync always, maxmemory-policy noeviction.';
  return [warn('redis settings', 'CONFIG GET is forbidden, so they cannot be read.', todo)];
}

function ofPersistence(settings: Values, config: Config): Finding {
  const check = 'redis persistence';
  const { appendonly, appendfsync, 'no-appendfsync-on-rewrite': onRewrite } = settings;
  const found = `appendonly ${appendonly}, appendfsync ${appendfsync}, no-appendfsync-on-rewrite ${onRewrite}.`;
  if (config.REDIS_DURABILITY === 'trusted') {
    return ok(check, `${found} REDIS_DURABILITY=trusted says that the store is durable by itself.`);
  }
  const always = 'CONFIG SET appendfsync always, and in redis.conf; the service then needs no WAITAOF.';
  if (appendonly !== 'yes') {
    const todo =
      'Data in memory is lost with the process. CONFIG SET appendonly yes, and in redis.conf; or REDIS_DURABILITY=trusted.';
    return fail(check, found, todo);
  }
  if (appendfsync === 'no') return fail(check, found, `Redis answers before a write is on disk. ${always}`);
  if (onRewrite === 'yes') {
    const todo =
      'While the log is rewritten nothing reaches the disk. CONFIG SET no-appendfsync-on-rewrite no.';
    return warn(check, found, todo);
  }
  if (appendfsync !== 'always') return warn(check, `${found} Each event waits for WAITAOF.`, always);
  return ok(check, found);
}

function ofPolicy(settings: Values): Finding {
  const check = 'redis memory policy';
  const policy = settings['maxmemory-policy'] ?? 'unknown';
  if (policy === 'noeviction') return ok(check, 'maxmemory-policy noeviction.');
  const todo = 'An evicted key loses data. CONFIG SET maxmemory-policy noeviction, and in redis.conf.';
  return fail(check, `maxmemory-policy ${policy}.`, todo);
}

function ofMemory(info: Values): Finding {
  const check = 'redis memory';
  const [used, most] = [Number(info.used_memory), Number(info.maxmemory)];
  if (!(most > 0)) return ok(check, `${megabytes(used)} used, without a limit of its own.`);
  const share = used / most;
  const found = `${megabytes(used)} used of ${megabytes(most)} (${Math.round(share * 100)} %).`;
  const todo =
    'When it is full, events are refused (503). Raise maxmemory; docs/capacity.md says how much memory is needed.';
  if (share >= 0.95) return fail(check, found, todo);
  return share >= 0.8 ? warn(check, found, todo) : ok(check, found);
}

const megabytes = (bytes: number): string => `${Math.round(bytes / 1e6)} MB`;

function ofReplicas(info: Values, { REDIS_ACK_REPLICAS }: Config): Finding {
  const check = 'redis replicas';
  const replicas = Number(info.connected_slaves ?? 0);
  const found = `${replicas} are connected.`;
  if (replicas >= REDIS_ACK_REPLICAS) return ok(check, found);
  const todo = `REDIS_ACK_REPLICAS=${REDIS_ACK_REPLICAS} answers 503 until that many replicas have a write: connect more, or lower it.`;
  return fail(check, found, todo);
}

/** Checks 100 clients drawn at random. */
async function ofSecrets(db: Db, { SECRETS_KEY }: Config): Promise<Finding> {
  const check = 'redis signing secrets';
  const box = createSecretBox(SECRETS_KEY);
  let outdated = 0;
  for (const clientToken of (await db.redis.srandmember(db.global.clients, 100)) as string[]) {
    const fields = await db.redis.hgetall(db.client(clientToken).signingSecrets);
    for (const [field, sealed] of Object.entries(fields)) {
      if (box.isOutdated(sealed)) outdated++;
      try {
        box.open(sealed, { clientToken, use: useOfField(field) });
      } catch (err) {
        if (!(err instanceof SecretUnreadable)) throw err;
        const todo = 'Add the key that encrypted them after the first key in SECRETS_KEY.';
        return fail(check, `SECRETS_KEY does not decrypt those of ${clientToken}.`, todo);
      }
    }
  }
  if (outdated === 0) return ok(check, 'All secrets that were tried can be decrypted.');
  const found = `${outdated} of the secrets that were tried are encrypted with an older key.`;
  return warn(check, found, 'Run: secrets reencrypt');
}

/** Returns the fields of `INFO`: `name:value` a line. */
function fieldsOf(info: string): Values {
  const lines = info.split('\r\n').filter((line) => line.includes(':'));
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]),
  );
}

/** Returns the settings that doctor checks; undefined if CONFIG is forbidden, as on managed servers. */
async function readSettings(redis: Redis): Promise<Values | undefined> {
  try {
    const asked = ['append*', 'no-appendfsync-on-rewrite', 'maxmemory-policy'];
    const flat = (await redis.call('CONFIG', 'GET', ...asked)) as string[];
    return Object.fromEntries(flat.flatMap((name, i) => (i % 2 === 0 ? [[name, flat[i + 1]]] : [])));
  } catch (err) {
    if (err instanceof Error && /unknown command|NOPERM|not allowed/i.test(err.message)) return undefined;
    throw err;
  }
}
