/** What the service needs of Redis (docs/reference/needs.md), tried by doing it: at the start, by `status` and by `doctor`. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { ConfigError } from '../../config.js';
import type { Db } from './db.js';
import { ofIntake, type Refused, readFacts } from './health.js';
import { rangeTags } from './keys.js';
import { evaluate, loadLibrary } from './library.js';
import { checkMarks } from './mark.js';
import { firstAnswer, onOwnConnection, whileOpen } from './nodes.js';
import {
  explainRefusals,
  ignore,
  isAnswer,
  isOfCommand,
  RedisUnavailable,
  refusalOf,
} from './unavailable.js';

/**
 * Every command that is sent or that a script runs, each so that its answer is not empty. `$` begins a key, which no other
 * process touches and which ends by itself.
 */
const examples = `
TIME
SET $s v EX 60|GET $s|EXISTS $s|PEXPIRE $s 60000|PTTL $s|PERSIST $s|GETDEL $s|SETNX $s v|EXPIRE $s 60
INCR $n|EXPIRE $n 60
HSET $h a 1 b 2 c 3|EXPIRE $h 60|HSETNX $h d 4|HGET $h a|HMGET $h a b|HGETALL $h|HKEYS $h|HVALS $h|HLEN $h|HEXISTS $h a
HSCAN $h 0|HINCRBY $h a 1|HRANDFIELD $h|HDEL $h a
SADD $t a b c d|EXPIRE $t 60|SCARD $t|SMEMBERS $t|SMISMEMBER $t a|SRANDMEMBER $t|SSCAN $t 0|SPOP $t|SREM $t a
ZADD $z 1 a 2 b 3 c|EXPIRE $z 60|ZCARD $z|ZCOUNT $z 0 9|ZRANGE $z 0 9|ZRANGEBYSCORE $z 0 9|ZREVRANGE $z 0 9|ZREVRANGEBYSCORE $z 9 0|ZSCORE $z b|ZRANDMEMBER $z|ZSCAN $z 0
ZPOPMIN $z|ZREM $z b|ZREMRANGEBYSCORE $z 0 9
LPUSH $l a|EXPIRE $l 60|RPUSH $l b c|LLEN $l|LPOP $l|LINDEX $l 0|LRANGE $l 0 9|LTRIM $l 0 9
XADD $x 1-1 a 1|EXPIRE $x 60|XADD $x * a 1|XDEL $x 1-1|XRANGE $x - +|XREVRANGE $x + -
UNLINK $n $h $t|DEL $s $l $x`;

export const needed = examples.trim().split(/[\n|]/);
const expiry = 'HEXPIRE $h 60 FIELDS 1 b';
export const nameIn = (example: string): string => example.split(' ', 1)[0] as string;

/**
 * Uses each server as the service does, and has the health learn what is refused.
 * @param isBrief leaves out what only calls find that no event needs
 */
export function tryNeeds(db: Db, isBrief = false): Promise<Refused[]> {
  return db.health.learn(async () => {
    const { nodes, health } = db;
    const owners = nodes.primaries().flatMap((server) => {
      const tag = rangeTags.find((one) => nodes.ownerOf(`{${one}}`) === server);
      return tag === undefined ? [] : [tryServer(db, server, tag, isBrief)];
    });
    if (owners.length > 0 || isBrief) return (await Promise.all(owners)).flat();
    return [{ ...health.behind(new RedisUnavailable("Cluster isn't ready")), server: '' }];
  });
}

/** @param tag of keys that the server owns */
async function tryServer(db: Db, redis: Redis, tag: string, isBrief: boolean): Promise<Refused[]> {
  const server = db.nodes.nameOf(redis);
  const refused: Refused[] = [];
  try {
    if ((await redis.echo('here')) !== 'here') throw new RedisUnavailable('ECHO answers nothing');
  } catch (err) {
    refused.push({ command: 'ECHO', ...db.health.behind(err, server), server });
    // The watch hears from the connection itself why it fails.
    if (!isOfCommand(refusalOf(err).reason)) return isBrief ? [] : refused;
  }
  const id = randomUUID();
  const key = (name: string) => `${db.prefix}need-${id}-${name}:{${tag}}`;
  const call = ([command = '', ...words]: string[]) =>
    redis.call(
      command,
      words.map((word) => (word.startsWith('$') ? key(word.slice(1)) : word)),
    );
  const own = { redis, nodes: { ...db.nodes, ownerOf: () => redis }, clockOffsetMs: () => 0 };
  const cleanUp = needed.slice(-2);
  const all = [
    ...needed.slice(0, -2).filter((example) => !isBrief || ofIntake.has(nameIn(example))),
    ...(db.settings.keepSegmentsSeconds > 0 ? [expiry] : []),
    ...cleanUp,
    ...(db.confirms ? ['WAITAOF 0 0 0'] : []),
  ];
  const tries: [command: string, done: Promise<unknown>][] = [
    ...(isBrief ? [] : [['FUNCTION', loadLibrary(redis)] satisfies [string, Promise<unknown>]]),
    ...all.map((example): [string, Promise<unknown>] => [nameIn(example), call(example.split(' '))]),
    ['FCALL', evaluate(own, 'mark', [key('mark')])],
  ];
  if (!isBrief) {
    const channels = db.client('*').updates;
    tries.push(['PSUBSCRIBE', onOwnConnection(redis, (own) => own.psubscribe(channels))]);
    // Keys of a cluster's other nodes.
    for (const other of db.nodes.isCluster ? [] : rangeTags.filter((_, i) => i % 16 === 0))
      tries.push(['EXISTS', redis.exists(`${db.prefix}need:{${other}}`)]);
  }
  tries.push(['INFO', readFacts(redis).then((facts) => db.health.noteFacts(server, facts))]);
  // Scripts do without it, and hide that it is refused.
  tries.push(['PUBLISH', redis.publish(db.client('need').updates, '')]);
  if (db.confirms)
    tries.push(['WAITAOF', db.durably((durable) => durable.redis.set(key('durable'), '', 'EX', 60)).safe]);
  for (const [i, one] of (await Promise.allSettled(tries.map(([, done]) => done))).entries()) {
    const command = tries[i]?.[0];
    if (one.status === 'rejected') refused.push({ command, ...refusalOf(one.reason), server });
    // After a write that was not made, reads find nothing.
    else if (refused.length === 0 && isEmpty(one.value)) refused.push({ command, reason: 'command', server });
  }
  // A bug of the service is not for an operator to find here.
  return refused.filter(({ reason }) => reason !== 'other');
}

const isEmpty = (answer: unknown) => answer === null || (Array.isArray(answer) && answer.length === 0);

/**
 * Waits until every server serves: logs why it waits. A full Redis serves: it delivers.
 * @param ended stops waiting
 * @throws ConfigError with all that waiting does not cure; AbortError
 */
export async function untilServed(db: Db, where: string, ended: AbortSignal): Promise<void> {
  for (let saidAt = performance.now() - sayEveryMs + 1000; ; ) {
    const found = (await tryNeeds(db)).filter((one) => one.command !== 'INFO' && one.reason !== 'full');
    const explained = explainRefusals(found);
    const lasting = explained.filter(({ lasts }) => lasts);
    // On a busy machine some of the commands may have found no answer yet: the message has all.
    if (lasting.length > 0 && found.every(isAnswer)) {
      const lines = lasting.map(({ server, says, todo }) => `  ${server && `${server}: `}${says} ${todo}`);
      throw new ConfigError(`Redis at ${where} cannot serve:\n${lines.join('\n')}`);
    }
    if (found.length === 0) return;
    if (performance.now() - saidAt >= sayEveryMs) {
      saidAt = performance.now();
      const reasons = explained.map(({ reason, server }) => (server === '' ? reason : `${reason} ${server}`));
      db.health.log.warn({ reasons, says: explained[0]?.says, do: explained[0]?.todo }, 'waiting for Redis');
    }
    await sleep(retryMs, undefined, { signal: ended });
  }
}

const sayEveryMs = 5000;
const retryMs = 20;

/** Looks at the store every few seconds, until it is closed: it may refuse, or lose its data, while nobody calls. */
export function watchStore(db: Db, everyMs = 5000): void {
  whileOpen(db.redis, everyMs, () =>
    tryNeeds(db, db.health.refused().length === 0)
      .then(() => checkMarks(db))
      .catch(ignore),
  );
}

/**
 * Resolves if a server answers and refuses nothing that events need, as of now: the others' clients wait. What was refused is tried
 * again before it is believed. @throws if none does
 */
export const servesCalls = (db: Db): Promise<unknown> =>
  firstAnswer(db.nodes, async (server) => {
    const isRefusing = () => db.health.isRefusing(db.nodes.nameOf(server));
    await db.nodes.greet(server);
    if (isRefusing()) await tryNeeds(db).then(() => checkMarks(db));
    if (isRefusing()) throw new RedisUnavailable('Redis refuses what events need');
  });
