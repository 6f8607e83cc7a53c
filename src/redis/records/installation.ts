/**
 * What the processes of an installation must have alike is noted beside its data, in one hash:
 *   key:<id>   a text sealed with each key of SECRETS_KEY that a process has begun to encrypt with, until no secret needs the key
 *   settings   JSON of the settings of the process that started last
 *   library:<name>   libraries.ts
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { withoutPassword } from '../../addresses.js';
import { type Config, ConfigError } from '../../config.js';
import type { Logger } from '../../log.js';
import type { Db } from '../connection/db.js';
import { evaluate } from '../connection/library.js';
import { markStore } from '../connection/mark.js';
import { untilServed } from '../connection/needs.js';
import { isLasting, isRedisUnavailable, refusalOf } from '../connection/unavailable.js';
import { createSecretBox, type SecretBox, SecretUnreadable } from './secretBox.js';

const keyPrefix = 'key:';
const owner = 'installation';

type SecretKeys = Config['SECRETS_KEY'];

const write = (db: Db, fields: Record<string, string>) =>
  evaluate(db, 'noteFields', [db.global.installation], Object.entries(fields).flat());

const sealedKey = (box: SecretBox, [newest]: NonNullable<SecretKeys> = []): Record<string, string> =>
  newest === undefined ? {} : { [keyPrefix + newest.id]: box.seal(newest.id, owner) };

/**
 * Waits until the store serves a process that starts, marks it, and compares the settings: again where the store was away in between.
 * @param ended stops waiting @throws ConfigError with all that waiting does not cure; AbortError
 */
export async function joinStore(db: Db, config: Config, log: Logger, ended: AbortSignal): Promise<SecretBox> {
  for (;;) {
    await untilServed(db, withoutPassword(config.REDIS_URL), ended);
    try {
      await markStore(db);
      return await joinInstallation(db, config, log);
    } catch (err) {
      if (err instanceof ConfigError || !isRedisUnavailable(err) || isLasting(refusalOf(err))) throw err;
      await sleep(retryMs, undefined, { signal: ended });
    }
  }
}

const retryMs = 100;

/**
 * Compares the settings of a process that starts with those of the installation, and notes them. The log names each that differs: while
 * a setting is being changed, processes follow one another. @throws ConfigError without a key that encrypts secrets
 */
async function joinInstallation(db: Db, config: Config, log: Logger): Promise<SecretBox> {
  const { SECRETS_KEY: keys } = config;
  const fault = await secretsKeyFault(db, keys);
  if (fault?.isLasting) throw new ConfigError(fault.says);
  for (const differing of await differingSettings(db, config))
    log.warn(differing, 'a setting differs from that of the process that started before');
  const box = createSecretBox(keys);
  await write(db, { ...sealedKey(box, keys), settings: JSON.stringify(alikeSettings(config)) });
  return box;
}

/** Returns what a command or a call reads and writes secrets with: a key may be in use since its process started. @throws SecretUnreadable if the processes have other keys */
export async function secretBoxOf(db: Db, keys: SecretKeys): Promise<SecretBox> {
  const fault = await secretsKeyFault(db, keys);
  if (fault !== undefined) throw new SecretUnreadable(fault.says);
  return createSecretBox(keys);
}

/**
 * Says why SECRETS_KEY does not fit the installation.
 * @returns `isLasting`: a process that started so would write secrets that the others, or nobody, may read
 */
export async function secretsKeyFault(db: Db, keys: SecretKeys) {
  const noted = await db.redis.hgetall(db.global.installation);
  const box = createSecretBox(keys);
  const used = Object.entries(noted).filter(([name]) => name.startsWith(keyPrefix));
  for (const [name, sealed] of used) {
    try {
      box.open(sealed, owner);
    } catch (err) {
      if (!(err instanceof SecretUnreadable)) throw err;
      const id = name.slice(keyPrefix.length);
      const has = keys?.some((key) => key.id === id)
        ? `has another key "${id}" than`
        : `lacks the key "${id}" of`;
      const says = `SECRETS_KEY ${has} this installation: its secrets would be unreadable, or stored in plain text. Set it as for the other processes; for a key that is lost: secrets reencrypt --lost ${id}`;
      return { says, isLasting: true };
    }
  }
  if (keys === undefined || used.length > 0 || noted.settings === undefined) return undefined;
  const says =
    'No process has started with SECRETS_KEY: none could read what this key encrypts. Restart them with it first';
  return { says, isLasting: false };
}

/** Notes that the first key encrypts from now on: instead of every other, or of one that is lost. Cut off, it leaves the others beside it. */
export async function noteNewestKey(db: Db, keys: SecretKeys, lost?: string): Promise<void> {
  const newest = sealedKey(createSecretBox(keys), keys);
  await write(db, newest);
  const names = await db.redis.hkeys(db.global.installation);
  const isFormer = (name: string) =>
    !(name in newest) && (lost === undefined ? name.startsWith(keyPrefix) : name === keyPrefix + lost);
  for (const name of names.filter(isFormer)) await db.redis.hdel(db.global.installation, name);
}

export async function differingSettings(db: Db, config: Config) {
  const text = await db.redis.hget(db.global.installation, 'settings');
  const noted: Record<string, unknown> = JSON.parse(text ?? '{}');
  return Object.entries(alikeSettings(config))
    .map(([setting, value]) => ({ setting, here: inWords(value), there: inWords(noted[setting] ?? value) }))
    .filter(({ here, there }) => here !== there);
}

/** A list may be empty. */
const inWords = (value: unknown) => String(value) || 'none';

/** The settings that decide about what all processes share. */
const alike = [
  'TEMPORAL_NAMESPACE',
  'TASK_QUEUE',
  'TOKEN_RATE_PER_SECOND',
  'ACCOUNT_RATE_PER_SECOND',
  'RETRY_SCHEDULE_SECONDS',
  'ATTEMPT_TIMEOUT_SECONDS',
  'OWED_RETENTION_DAYS',
  'FAILED_RETENTION_DAYS',
  'SEGMENT_RETENTION_DAYS',
  'MAX_IN_FLIGHT',
  'DRAIN_PER_SECOND',
  'WORKFLOWS_PER_SECOND',
  'REDIS_DURABILITY',
  'REDIS_ACK_REPLICAS',
  'SOURCE_ADDRESSES',
] as const;

const alikeSettings = (config: Config): Record<string, unknown> =>
  Object.fromEntries(alike.map((name) => [name, config[name] ?? 'off']));
