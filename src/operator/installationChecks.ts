/** What a check of `doctor` has found; and the checks of what an installation keeps in its store: secrets, settings that are alike, scripts. */
import type { Redis } from 'ioredis';
import type { Config } from '../config.js';
import { mapInPages, restsBetweenSteps } from '../promises.js';
import type { Db } from '../redis/connection/db.js';
import { ignore } from '../redis/connection/unavailable.js';
import { differingSettings, secretsKeyFault } from '../redis/records/installation.js';
import { countLibraries } from '../redis/records/libraries.js';
import { createSecretBox, isPlain, SecretUnreadable } from '../redis/records/secretBox.js';
import { ownerOf } from '../redis/records/secrets.js';
import { count } from '../web/words.js';

export const levels = ['ok', 'warn', 'fail'] as const;
export type Level = (typeof levels)[number];

export type Finding = ReturnType<typeof finding>;

/**
 * @param check the name of the check: `<part> <what>`, such as `redis persistence`
 * @param found a sentence
 * @param todo what to do about it, unless the check is ok
 */
export const finding = (check: string, level: Level, found: string, todo = '') => {
  return { check, level, found, do: level === 'ok' ? null : todo };
};

/** 127 KB each. */
const manyLibraries = 16;

export async function checkLibraries(db: Db, server: Redis): Promise<Finding[]> {
  const counted = await countLibraries(db, server).catch(ignore);
  if (counted === undefined) return [];
  const { all, noted } = counted;
  const level = all - noted > manyLibraries ? 'warn' : 'ok';
  const found = `Scripts of ${count(all, 'release')} are loaded, ${noted} of them this installation's.`;
  const todo = 'If no other installation uses this server: FUNCTION FLUSH; the one in use is loaded again.';
  return [finding('redis libraries', level, found, todo)];
}

export async function checkSecrets(db: Db, { SECRETS_KEY }: Config): Promise<Finding> {
  const check = 'redis signing secrets';
  const box = createSecretBox(SECRETS_KEY);
  const counts = { all: 0, plain: 0, outdated: 0 };
  const [unreadable, without]: [string[], string[]] = [[], []];
  const rest = restsBetweenSteps();
  await mapInPages(await db.redis.smembers(db.global.clients), 200, async (clientToken) => {
    const { signingSecrets, registration } = db.client(clientToken);
    const fields = await db.redis.hgetall(signingSecrets);
    if (!('current' in fields) && (await db.redis.exists(registration)) > 0) without.push(clientToken);
    try {
      for (const [field, sealed] of Object.entries(fields)) {
        counts.all++;
        if (isPlain(sealed)) counts.plain++;
        else if (box.isOutdated(sealed)) counts.outdated++;
        box.open(sealed, ownerOf(clientToken, field));
      }
    } catch (err) {
      if (!(err instanceof SecretUnreadable)) throw err;
      unreadable.push(clientToken);
    }
    await rest();
  });
  const named = (all: string[]) =>
    `${all.slice(0, 5).join(', ')}${all.length > 5 ? ` and ${count(all.length - 5, 'other client')}` : ''}`;
  if (without.length > 0) {
    const todo =
      'Nothing can be sent to them. Make each a new one: secrets rotate T; its publisher needs it.';
    return finding(check, 'fail', `There is none of ${named(without)}.`, todo);
  }
  if (unreadable.length > 0) {
    const found = `SECRETS_KEY does not decrypt those of ${named(unreadable)}.`;
    const todo = 'Add the key that encrypted them after the first key in SECRETS_KEY.';
    return finding(check, 'fail', found, todo);
  }
  const { all, plain, outdated } = counts;
  if (plain > 0) {
    const first = SECRETS_KEY === undefined ? 'Set SECRETS_KEY for every process and restart them. ' : '';
    const todo = `${first}Run: secrets reencrypt. Whoever has seen Redis or a backup may know them: secrets rotate.`;
    return finding(check, 'warn', `${plain} of ${count(all, 'secret')} are in plain text.`, todo);
  }
  if (outdated === 0) return finding(check, 'ok', `All of ${count(all, 'secret')} can be decrypted.`);
  const found = `${outdated} of ${count(all, 'secret')} are encrypted with an older key.`;
  return finding(check, 'warn', found, 'Run: secrets reencrypt');
}

/** Compares the settings of this process with those of the process that started last. */
export async function checkAlike(db: Db, config: Config): Promise<Finding[]> {
  const differing = await differingSettings(db, config);
  const said = differing.map(({ setting, here, there }) => `${setting} is ${here} here, ${there} there`);
  const found =
    said.length === 0
      ? 'They are those of the process that started last.'
      : `They differ from those of the process that started last: ${said.join('; ')}.`;
  const todo =
    'Set them alike for every process and for these commands, and restart the processes that differ.';
  const key = await secretsKeyFault(db, config.SECRETS_KEY);
  const keyTodo = 'Set SECRETS_KEY as it is set for the other processes.';
  return [
    ...(key === undefined ? [] : [finding('settings SECRETS_KEY', 'fail', `${key.says}.`, keyTodo)]),
    finding('settings alike', said.length === 0 ? 'ok' : 'warn', found, todo),
  ];
}
