/** Asks Redis for `status` and `doctor` whether it answers and accepts writes, and checks its settings and its state. */
import type { Redis } from 'ioredis';
import type { Config } from '../config.js';
import { noticesClient } from '../ids.js';
import { type Db, toPairs, waitForRedis } from '../redis/connection/db.js';
import { firstAnswer, rangeTags } from '../redis/connection/nodes.js';
import { createSecretBox, SecretUnreadable } from '../redis/records/secretBox.js';
import { ownerOf } from '../redis/records/secrets.js';
import { span } from './terminal.js';

type Level = 'ok' | 'warn' | 'fail';

export type Finding = ReturnType<typeof finding>;

/**
 * @param check the name of the check: `<part> <what>`, such as `redis persistence`
 * @param found a sentence
 * @param todo what to do about it, unless the check is ok
 */
export const finding = (check: string, level: Level, found: string, todo = '') => ({
  check,
  level,
  found,
  todo,
});

/** The service gives up on a command after 1 s. */
const slowRedisMs = 500;
/** A single slow answer may be chance. */
const slowAnswers = 3;
/** With this error Redis refuses even a PING, but answers every read. */
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
 * Asks how fast Redis answers (the fastest of three answers if it is slow) and whether it accepts writes: a full Redis and
 * a replica still answer every read. It writes the mark, on each primary, that the service writes when it waits for the
 * disk; nothing reads that mark.
 * @returns `problem`: why Redis is slow or refuses writes
 * @throws if Redis does not answer
 */
export async function askRedis(db: Db): Promise<{ answerMs: number; problem?: string; refuses: boolean }> {
  let answerMs = Number.POSITIVE_INFINITY;
  for (let asked = 0; asked < slowAnswers && answerMs > slowRedisMs; asked++) {
    const begun = performance.now();
    // Not PING, which Redis refuses after a failed write.
    await firstAnswer(db.nodes, (server) => server.echo(''));
    answerMs = Math.min(answerMs, performance.now() - begun);
  }
  const slow = answerMs > slowRedisMs ? { problem: `Redis takes ${span(answerMs)} to answer.` } : {};
  try {
    const keys = rangeTags.map((tag) => `${db.global.diskMark}:{${tag}}`);
    const marks = db.nodes.primaries().map((node) => keys.find((key) => db.nodes.ownerOf(key) === node));
    await Promise.all(marks.map((mark) => mark !== undefined && db.redis.set(mark, '', 'EX', 60)));
  } catch (err) {
    const word = firstWord(err);
    // A user who may only read cannot find out whether Redis accepts writes.
    if (word === 'NOPERM') return { answerMs, ...slow, refuses: false };
    const problem = meanings[word];
    if (problem === undefined) throw err;
    // ioredis reconnects after a replica has refused.
    if (word === 'READONLY') await waitForRedis(db, backWithinMs);
    return { answerMs, problem, refuses: true };
  }
  return { answerMs, ...slow, refuses: false };
}

/** Waits until Redis answers, even if its disk has failed. @throws after `timeoutMs` */
export async function waitForReads(db: Db, timeoutMs: number) {
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
  const { answerMs, problem } = await askRedis(db);
  if (problem === undefined) return finding('redis', 'ok', `It answers in ${span(answerMs)}.`);
  return finding('redis', 'fail', problem, 'Check its host, its memory, its disk and SLOWLOG GET.');
}

async function checkServer(redis: Redis, config: Config): Promise<Finding[]> {
  const info = parseInfo(await redis.info());
  const settings = await readSettings(redis);
  const checked = settings ? [checkPersistence(settings, config), checkPolicy(settings)] : [unreadable];
  return [...checked, checkMemory(info), checkReplicas(info, config)];
}

const unreadable = finding(
  'redis settings',
  'warn',
  'CONFIG GET is forbidden, so they cannot be read.',
  'Make sure that the provider sets: appendonly yes, appendfsync always, maxmemory-policy noeviction.',
);

function checkPersistence(settings: Values, { REDIS_DURABILITY }: Config): Finding {
  const check = 'redis persistence';
  const { appendonly, appendfsync, 'no-appendfsync-on-rewrite': onRewrite } = settings;
  const found = `appendonly ${appendonly}, appendfsync ${appendfsync}, no-appendfsync-on-rewrite ${onRewrite}.`;
  const always = 'CONFIG SET appendfsync always, and in redis.conf.';
  if (REDIS_DURABILITY === 'trusted') {
    const trusted = 'REDIS_DURABILITY=trusted says that the store is durable by itself.';
    return finding(check, 'ok', `${found} ${trusted}`);
  }
  if (appendonly !== 'yes') {
    const todo = 'CONFIG SET appendonly yes, and in redis.conf; or REDIS_DURABILITY=trusted.';
    return finding(check, 'fail', found, `Data in memory is lost with the process. ${todo}`);
  }
  if (appendfsync === 'no')
    return finding(check, 'fail', found, `Redis answers before a write is on disk. ${always}`);
  if (onRewrite === 'yes') {
    const todo = 'CONFIG SET no-appendfsync-on-rewrite no.';
    return finding(check, 'warn', found, `While the log is rewritten nothing reaches the disk. ${todo}`);
  }
  if (appendfsync === 'always') return finding(check, 'ok', found);
  return finding(check, 'warn', `${found} Each event waits for the next flush.`, always);
}

function checkPolicy({ 'maxmemory-policy': policy }: Values): Finding {
  const level = policy === 'noeviction' ? 'ok' : 'fail';
  const todo = 'An evicted key loses data. CONFIG SET maxmemory-policy noeviction, and in redis.conf.';
  return finding('redis memory policy', level, `maxmemory-policy ${policy}.`, todo);
}

function checkMemory(info: Values): Finding {
  const [used, most] = [Number(info.used_memory), Number(info.maxmemory)];
  const share = most > 0 ? used / most : 0;
  const bound =
    most > 0 ? `of ${megabytes(most)} (${Math.round(share * 100)} %)` : 'without a limit of its own';
  const level = share >= 0.95 ? 'fail' : share >= 0.8 ? 'warn' : 'ok';
  const todo =
    'When it is full, events are refused (503). Raise maxmemory; docs/capacity.md says how much memory is needed.';
  return finding('redis memory', level, `${megabytes(used)} used ${bound}.`, todo);
}

const megabytes = (bytes: number): string => `${Math.round(bytes / 1e6)} MB`;

function checkReplicas(info: Values, { REDIS_ACK_REPLICAS: wanted }: Config): Finding {
  const replicas = Number(info.connected_slaves ?? 0);
  const level = replicas >= wanted ? 'ok' : 'fail';
  const todo = `REDIS_ACK_REPLICAS=${wanted} answers 503 until that many replicas have a write: connect more, or lower it.`;
  return finding('redis replicas', level, `${replicas} are connected.`, todo);
}

/** The number of clients, and of accounts, whose secrets are tried. */
const sampleSize = 100;

async function checkSecrets(db: Db, { SECRETS_KEY }: Config): Promise<Finding> {
  const check = 'redis signing secrets';
  const box = createSecretBox(SECRETS_KEY);
  const accounts = ['platform', ...(await db.redis.srandmember(db.global.accounts, sampleSize))];
  const clients = await db.redis.srandmember(db.global.clients, sampleSize);
  let outdated = 0;
  for (const clientToken of new Set([...accounts.map(noticesClient), ...clients])) {
    const fields = await db.redis.hgetall(db.client(clientToken).signingSecrets);
    for (const [field, sealed] of Object.entries(fields)) {
      if (box.isOutdated(sealed)) outdated++;
      try {
        box.open(sealed, ownerOf(clientToken, field));
      } catch (err) {
        if (!(err instanceof SecretUnreadable)) throw err;
        const found = `SECRETS_KEY does not decrypt those of ${clientToken}.`;
        const todo = 'Add the key that encrypted them after the first key in SECRETS_KEY.';
        return finding(check, 'fail', found, todo);
      }
    }
  }
  if (outdated === 0) return finding(check, 'ok', 'All secrets that were tried can be decrypted.');
  const found = `${outdated} of the secrets that were tried are encrypted with an older key.`;
  return finding(check, 'warn', found, 'Run: secrets reencrypt');
}

/** Returns the fields of `INFO`: `name:value` a line. */
function parseInfo(info: string): Values {
  return Object.fromEntries([...info.matchAll(/^(\w+):(.*)\r$/gm)].map(([, name, value]) => [name, value]));
}

/** Returns the settings that doctor checks; undefined if CONFIG is forbidden, as on managed servers. */
async function readSettings(redis: Redis): Promise<Values | undefined> {
  try {
    const asked = ['append*', 'no-appendfsync-on-rewrite', 'maxmemory-policy'];
    const flat = (await redis.call('CONFIG', 'GET', ...asked)) as string[];
    return Object.fromEntries(toPairs(flat));
  } catch (err) {
    if (err instanceof Error && /unknown command|NOPERM|not allowed/i.test(err.message)) return undefined;
    throw err;
  }
}
