/** Asks Redis for `status` and `doctor` whether it answers and accepts writes, and checks its settings and its state. */
import type { Redis } from 'ioredis';
import type { Config } from '../config.js';
import { shared } from '../constants.js';
import { except } from '../promises.js';
import { explainOlder, readSteps, type Step } from '../redis/connection/clocks.js';
import { type Db, nowOf, toPairs, waitForRedis } from '../redis/connection/db.js';
import { lostBy, type ServerFacts, stopsCalls } from '../redis/connection/health.js';
import { readMarks } from '../redis/connection/mark.js';
import { tryNeeds } from '../redis/connection/needs.js';
import { firstAnswer } from '../redis/connection/nodes.js';
import {
  explainRefusals,
  ignore,
  isAnswer,
  isRedisUnavailable,
  refusalOf,
} from '../redis/connection/unavailable.js';
import { count, span } from '../web/words.js';
import {
  checkAlike,
  checkLibraries,
  checkSecrets,
  type Finding,
  finding,
  type Level,
} from './installationChecks.js';

/** The service gives up on a command after 1 s. */
const slowRedisMs = 500;
/** A single slow answer may be chance, or the work of this process. */
const slowAnswers = 3;
const backWithinMs = 1500;

/**
 * Asks how fast Redis answers (the fastest of three answers), and uses each server as the service does.
 * @returns what is amiss; `refuses`: calls fail
 * @throws if Redis does not answer
 */
export async function askRedis(db: Db): Promise<{ answerMs: number; amiss: Finding[]; refuses: boolean }> {
  let answerMs = Number.POSITIVE_INFINITY;
  for (let asked = 0; asked < slowAnswers; asked++) {
    const begun = performance.now();
    const isRefusal = (err: unknown) => isAnswer(refusalOf(err));
    await firstAnswer(db.nodes, (server) => server.echo('')).catch(except(isRefusal));
    answerMs = Math.min(answerMs, Math.ceil(performance.now() - begun));
  }
  const refused = await tryNeeds(db);
  // ioredis reconnects after a replica has refused.
  if (refused.some(({ reason }) => reason === 'replica')) await waitForRedis(db, backWithinMs);
  const refuses = refused.some(stopsCalls);
  const amiss = explainRefusals(refused).map(({ says, todo, server }) =>
    finding(named('redis', server), refuses ? 'fail' : 'warn', says, todo),
  );
  if (answerMs > slowRedisMs) {
    const todo = 'Check its host, its memory, its disk and SLOWLOG GET.';
    amiss.push(finding('redis', 'fail', `Redis takes ${span(answerMs)} to answer.`, todo));
  }
  for (const [server, facts] of db.health.facts) amiss.push(...checkClock(facts, server));
  amiss.push(...((await readSteps(db).catch(ignore)) ?? []).flatMap((step) => checkStep(step, nowOf(db))));
  if (refuses) return { answerMs, amiss, refuses };
  const mark = await readMarks(db);
  const [emptied] = mark === 'lost' ? explainRefusals([{ reason: 'emptied' }]) : [];
  if (emptied !== undefined) amiss.push(finding('redis data', 'fail', emptied.says, emptied.todo));
  if (mark === 'unmarked') amiss.push(finding('redis data', 'fail', unmarked, unmarkedTodo));
  return { answerMs, amiss, refuses: mark === 'lost' };
}

const unmarked =
  'The store has no mark of this installation: no process has started on it with this KEY_PREFIX, or it has lost its data.';
const unmarkedTodo =
  'Start a process, or correct REDIS_URL and KEY_PREFIX. Lost data: docs/guides/disaster.md.';

const named = (check: string, server: string) => (server === '' ? check : `${check} ${server}`);

export function describeLosses({ health }: Db): string[] {
  const evictions = [...health.facts.values()].map(describeEviction);
  const [notDurable] = health.notDurable.size > 0 ? explainRefusals([{ reason: 'not_durable' }]) : [];
  return [...new Set([...evictions, notDurable?.says])].filter((said) => said !== undefined);
}

function describeEviction({ policy = '', evictedKeys = 0 }: ServerFacts): string | undefined {
  if (evictedKeys > 0)
    return `Redis has evicted ${count(evictedKeys, 'key')}: ${lostBy(policy)} (maxmemory-policy ${policy}).`;
  if (policy === '' || policy === 'noeviction') return undefined;
  return `Redis evicts keys when it is full: then ${lostBy(policy)} (maxmemory-policy ${policy}).`;
}

type Values = Record<string, string>;

export async function checkRedis(db: Db, config: Config): Promise<Finding[]> {
  const { answerMs, amiss, refuses } = await askRedis(db);
  const unlessRefused = except(
    () => refuses,
    () => [],
  );
  const serves = `It answers in ${span(answerMs)}, and does what the service needs.`;
  const servers = await Promise.all(
    db.nodes.primaries().map(async (server) => {
      const name = db.nodes.nameOf(server);
      const facts = db.health.facts.get(name) ?? {};
      const persistence = checkPersistence(await readSettings(server), facts, config);
      const findings = [persistence, checkPolicy(facts), checkMemory(facts), checkReplicas(facts, config)];
      findings.push(...(await checkLibraries(db, server)));
      return findings.map((one) => ({ ...one, check: named(one.check, name) }));
    }),
  ).catch(unlessRefused);
  const secrets = await Promise.all([checkSecrets(db, config), checkAlike(db, config)]).catch(unlessRefused);
  const isAmiss = amiss.some(({ check, level }) => level === 'fail' && check !== 'redis data');
  const serving = isAmiss ? [] : [finding('redis', 'ok', serves)];
  return [...serving, ...amiss, ...servers.flat(), ...secrets.flat()];
}

/** A step back is told for a day. */
const toldMs = 86_400_000;

function checkStep({ server, at, backMs, olderFrom }: Step, now: number): Finding[] {
  if (Math.abs(now - at) > toldMs) return [];
  if (olderFrom > 0) {
    const says = explainOlder(olderFrom).replace('the', 'The');
    const found = `${says}. A process saw that at ${new Date(at).toISOString()}.`;
    return [finding(named('redis data', server), 'warn', found, 'docs/guides/disaster.md#loss-of-a-store')];
  }
  const found = `Redis' clock stepped back by ${span(backMs)} at ${new Date(at).toISOString()}. What waited was set right.`;
  const todo = 'Check its time service (timedatectl), or, after a failover, the clocks of all servers.';
  return [finding(named('redis clock', server), 'warn', found, todo)];
}

/** The alert of a wrong clock allows as much. */
const clockMs = 5000;

function checkClock({ aheadMs = 0 }: ServerFacts, server: string): Finding[] {
  if (Math.abs(aheadMs) < clockMs) return [];
  const by = `${span(Math.abs(aheadMs))} ${aheadMs > 0 ? 'ahead of' : 'behind'}`;
  const ends =
    Math.abs(aheadMs) > shared.clocksAgreeMs ? ', nothing ends as failed, and no site is suspended' : '';
  const todo = `Correct the one that is wrong: timedatectl. Until then some ages, also in status, are wrong${ends}.`;
  return [finding(named('redis clock', server), 'warn', `Redis' clock is ${by} this machine's.`, todo)];
}

/** Judges by the settings, or by INFO where a provider does not tell them. */
function checkPersistence(settings: Values, { keepsLog }: ServerFacts, { REDIS_DURABILITY }: Config) {
  const { appendonly, appendfsync, 'no-appendfsync-on-rewrite': onRewrite } = settings;
  const isUnknown = appendonly === undefined;
  const isTrusted = REDIS_DURABILITY === 'trusted';
  const found = isUnknown
    ? 'Its settings are unknown: CONFIG GET is refused or answers nothing.'
    : `appendonly ${appendonly}, appendfsync ${appendfsync}, no-appendfsync-on-rewrite ${onRewrite}.`;
  const judge = (level: Level, todo = '', more = '') =>
    finding('redis persistence', level, `${found}${more}`, todo);
  const always = 'CONFIG SET appendfsync always, and in redis.conf.';
  if (!isTrusted && (isUnknown ? keepsLog === false : appendonly !== 'yes')) {
    const todo = 'CONFIG SET appendonly yes, and in redis.conf; or REDIS_DURABILITY=trusted.';
    const lost = `Data in memory is lost with the process. ${todo}`;
    return judge('fail', lost, ' It keeps no append-only file.');
  }
  if (isUnknown) {
    const todo =
      'Make sure that its provider sets: appendonly yes, appendfsync always, no-appendfsync-on-rewrite no.';
    return judge('warn', todo, isTrusted ? '' : ' It confirms that writes are on its disk.');
  }
  if (isTrusted)
    return judge('ok', '', ' REDIS_DURABILITY=trusted says that the store is durable by itself.');
  if (appendfsync === 'no') return judge('fail', `Redis answers before a write is on disk. ${always}`);
  if (onRewrite === 'yes') {
    const todo = 'CONFIG SET no-appendfsync-on-rewrite no.';
    return judge('warn', `While the log is rewritten nothing reaches the disk. ${todo}`);
  }
  if (settings['auto-aof-rewrite-percentage'] === '0') {
    const todo = 'Unless a backup is being made: CONFIG SET auto-aof-rewrite-percentage 100.';
    return judge('warn', todo, ' Its log is never rewritten, and fills the disk.');
  }
  if (appendfsync === 'always') return judge('ok');
  return judge('warn', always, ' Each event waits for the next flush.');
}

const evictionTodo =
  'An evicted key loses data. CONFIG SET maxmemory-policy noeviction, and in redis.conf; then CONFIG RESETSTAT. Events that were lost: docs/guides/disaster.md.';

function checkPolicy(facts: ServerFacts): Finding {
  const check = 'redis memory policy';
  const evicting = describeEviction(facts);
  if (evicting !== undefined) return finding(check, 'fail', evicting, evictionTodo);
  if (facts.policy !== undefined)
    return finding(check, 'ok', `maxmemory-policy ${facts.policy}; no key was evicted.`);
  const todo = 'Make sure that its provider sets maxmemory-policy noeviction.';
  return finding(check, 'warn', 'maxmemory-policy is unknown.', todo);
}

function checkMemory({ usedBytes, limitBytes = 0 }: ServerFacts): Finding {
  const check = 'redis memory';
  const todo =
    'When it is full, events are refused (503). Raise maxmemory; docs/capacity.md says how much memory is needed.';
  if (usedBytes === undefined)
    return finding(check, 'warn', 'The memory that it uses is unknown.', 'Grant INFO.');
  const share = limitBytes > 0 ? usedBytes / limitBytes : 0;
  const bound =
    limitBytes > 0
      ? `of ${megabytes(limitBytes)} (${Math.round(share * 100)} %)`
      : 'without a limit of its own';
  const level = share > 0.95 ? 'fail' : share > 0.8 ? 'warn' : 'ok';
  return finding(check, level, `${megabytes(usedBytes)} used ${bound}.`, todo);
}

const megabytes = (bytes: number): string => `${Math.round(bytes / 1e6)} MB`;

function checkReplicas({ replicas = 0 }: ServerFacts, { REDIS_ACK_REPLICAS: wanted }: Config): Finding {
  const level = replicas >= wanted ? 'ok' : 'fail';
  const todo = `REDIS_ACK_REPLICAS=${wanted} answers 503 until that many replicas have a write: connect more, or lower it.`;
  return finding('redis replicas', level, `${replicas} are connected.`, todo);
}

/** Returns the settings that doctor checks; none if CONFIG is refused, as on managed servers, or answers nothing. */
async function readSettings(redis: Redis): Promise<Values> {
  const names = ['append*', 'no-appendfsync-on-rewrite', 'auto-aof-rewrite-percentage'];
  const isRefusal = (err: unknown) => isRedisUnavailable(err) && refusalOf(err).reason !== 'away';
  const answer = await redis.call('CONFIG', 'GET', ...names).catch(except(isRefusal, () => []));
  return Object.fromEntries(toPairs(answer as string[]));
}
