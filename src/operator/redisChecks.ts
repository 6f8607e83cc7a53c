/** What `status` and `doctor` ask Redis: whether it answers and accepts writes, its settings and its state. */
import type { Redis } from 'ioredis';
import type { Config } from '../config.js';
import { noticesClient } from '../ids.js';
import { type Db, waitForRedis } from '../redis/connection/db.js';
import { rangeTags } from '../redis/connection/slots.js';
import { createSecretBox, SecretUnreadable } from '../redis/records/secretBox.js';
import { useOfField } from '../redis/records/secrets.js';
import { span } from './terminal.js';

/** The result of one check. */
export interface Finding {
  /** The name of the check: `<part> <what>`, such as `redis persistence`. */
  check: string;
  level: 'ok' | 'warn' | 'fail';
  /** The finding, as a sentence. */
  found: string;
  /** What to do about it; absent if the check is ok. */
  todo?: string;
}

const problem =
  (level: 'warn' | 'fail') =>
  (check: string, found: string, todo: string): Finding => ({ check, level, found, todo });

export const ok = (check: string, found: string): Finding => ({ check, level: 'ok', found });
export const warn = problem('warn');
export const fail = problem('fail');

/** The service gives up on a command after 1 s. */
const slowRedisMs = 500;
/** With this error Redis also refuses a PING, but answers every read. */
const diskFailed = 'MISCONF';
const backWithinMs = 1500;
const refused = 'Events, tokens and registrations are answered 503.';

/** The meaning of Redis' refusals, by their first word. */
const meanings: Record<string, string> = {
  OOM: `Redis is full (maxmemory). ${refused}`,
  [diskFailed]: `Redis refuses writes because its last write to disk failed. ${refused}`,
  READONLY: `Redis refuses writes: it is a replica, and REDIS_URL must lead to the primary. ${refused}`,
  NOREPLICAS: `Redis refuses writes: too few replicas are connected (min-replicas-to-write). ${refused}`,
};

/**
 * Asks how fast Redis answers and whether it accepts writes: a full Redis and a replica still answer every read. It writes
 * the mark, on each primary, that the service writes when it waits for the disk; nothing reads it.
 * @throws if Redis does not answer
 */
export async function askRedis(db: Db): Promise<{ answerMs: number; slow?: string; refuses?: string }> {
  const begun = performance.now();
  // Not PING, which Redis refuses after a failed write.
  await db.nodes.echo();
  const answerMs = performance.now() - begun;
  const slow = answerMs > slowRedisMs ? { slow: `Redis takes ${span(answerMs)} to answer.` } : {};
  try {
    const keys = rangeTags().map((tag) => `${db.global.diskMark}:{${tag}}`);
    const marks = db.nodes.primaries().map((node) => keys.find((key) => db.nodes.ownerOf(key) === node));
    await Promise.all(marks.map((mark) => mark !== undefined && db.redis.set(mark, '', 'EX', 60)));
    return { answerMs, ...slow };
  } catch (err) {
    const word = firstWord(err);
    // A user who may only read cannot find out.
    if (word === 'NOPERM') return { answerMs, ...slow };
    const meaning = meanings[word];
    if (meaning === undefined) throw err;
    // ioredis reconnects after a replica has refused.
    if (word === 'READONLY') await waitForRedis(db, backWithinMs);
    return { answerMs, ...slow, refuses: meaning };
  }
}

/** Waits until Redis answers, also if its disk has failed. @throws after `timeoutMs` */
export async function waitForReads(db: Db, timeoutMs: number): Promise<void> {
  try {
    await waitForRedis(db, timeoutMs);
  } catch (err) {
    if (!(err instanceof Error) || firstWord(err.cause) !== diskFailed) throw err;
  }
}

function firstWord(err: unknown): string {
  return err instanceof Error ? (err.message.split(' ')[0] ?? '') : '';
}

type Values = Record<string, string | undefined>;

export async function checkRedis(db: Db, config: Config): Promise<Finding[]> {
  const servers = await Promise.all(
    db.nodes.primaries().map(async (server) => {
      const findings = await checkServer(server, config);
      if (!db.nodes.isCluster) return findings;
      const { host, port } = server.options;
      return findings.map((finding) => ({ ...finding, check: `${finding.check} ${host}:${port}` }));
    }),
  );
  return [await checkAnswer(db), ...servers.flat(), await checkSecrets(db, config)];
}

async function checkAnswer(db: Db): Promise<Finding> {
  const { answerMs, slow, refuses } = await askRedis(db);
  const problem = refuses ?? slow;
  if (problem === undefined) return ok('redis', `It answers in ${span(answerMs)}.`);
  return fail('redis', problem, 'Check its host, its memory, its disk and SLOWLOG GET.');
}

async function checkServer(redis: Redis, config: Config): Promise<Finding[]> {
  const info = parseInfo(await redis.info());
  const settings = await readSettings(redis);
  return [...checkSettings(settings, config), checkMemory(info), checkReplicas(info, config)];
}

function checkSettings(settings: Values | undefined, config: Config): Finding[] {
  if (settings !== undefined) return [checkPersistence(settings, config), checkPolicy(settings)];
  const todo =
    'Make sure that the provider sets: appendonly yes, appendfsync always, maxmemory-policy noeviction.';
  return [warn('redis settings', 'CONFIG GET is forbidden, so they cannot be read.', todo)];
}

function checkPersistence(settings: Values, config: Config): Finding {
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

function checkPolicy(settings: Values): Finding {
  const check = 'redis memory policy';
  const policy = settings['maxmemory-policy'] ?? 'unknown';
  if (policy === 'noeviction') return ok(check, 'maxmemory-policy noeviction.');
  const todo = 'An evicted key loses data. CONFIG SET maxmemory-policy noeviction, and in redis.conf.';
  return fail(check, `maxmemory-policy ${policy}.`, todo);
}

function checkMemory(info: Values): Finding {
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

function checkReplicas(info: Values, { REDIS_ACK_REPLICAS }: Config): Finding {
  const check = 'redis replicas';
  const replicas = Number(info.connected_slaves ?? 0);
  const found = `${replicas} are connected.`;
  if (replicas >= REDIS_ACK_REPLICAS) return ok(check, found);
  const todo = `REDIS_ACK_REPLICAS=${REDIS_ACK_REPLICAS} answers 503 until that many replicas have a write: connect more, or lower it.`;
  return fail(check, found, todo);
}

/** Clients and accounts drawn at random. */
const drawn = 100;

async function checkSecrets(db: Db, { SECRETS_KEY }: Config): Promise<Finding> {
  const check = 'redis signing secrets';
  const box = createSecretBox(SECRETS_KEY);
  const accounts = ['platform', ...(await db.redis.srandmember(db.global.accounts, drawn))];
  const clients = await db.redis.srandmember(db.global.clients, drawn);
  let outdated = 0;
  for (const clientToken of new Set([...accounts.map(noticesClient), ...clients])) {
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
function parseInfo(info: string): Values {
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
