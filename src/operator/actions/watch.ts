import { setTimeout as sleep } from 'node:timers/promises';
import { isRedisUnavailable } from '../../redis/connection/unavailable.js';
import { indexedClients } from '../../redis/owed/owedIndex.js';
import { type ClientHealth, type Health, healthOfClients } from '../health/health.js';
import { type OwnHealth, readOwnHealth, redisAsFact } from '../health/ownHealth.js';
import { type Rates, type Reading, ratesBetween, readMetrics } from '../health/rates.js';
import { headline, judge, type Verdict } from '../health/verdict.js';
import { shownClient, worstOf, worstTable } from '../health/worst.js';
import type { Operator } from '../operator.js';
import { amount } from '../terminal/amount.js';
import { moment, span } from '../terminal/moment.js';
import { facts } from '../terminal/table.js';

const everyMs = 2000;

export async function watch(operator: Operator, { once = false }: { once?: boolean }): Promise<void> {
  await operator.db();
  // Ctrl-C is the normal end.
  process.once('SIGINT', () => process.exit(0));
  let before = await readMetrics(operator.admin());
  if (once && before !== undefined) await sleep(everyMs);
  for (;;) {
    const begun = performance.now();
    const metrics = await readMetrics(operator.admin());
    const look = await lookOnce(operator, before, metrics);
    before = metrics;
    if (once) return operator.answer(shown(look), () => picture(look));
    if (operator.isWatched()) draw(picture(look));
    else operator.next(shown(look), () => line(look));
    await sleep(Math.max(everyMs - (performance.now() - begun), 0));
  }
}

interface Look {
  atMs: number;
  verdict: Verdict;
  own?: OwnHealth;
  health: Health;
  rates: Rates | null;
}

/** Reads only clients that are owed something: no other can be late. */
async function lookOnce(
  operator: Operator,
  before: Reading | undefined,
  metrics: Reading | undefined,
): Promise<Look> {
  const seen = { atMs: Date.now(), rates: ratesBetween(before, metrics) };
  try {
    const tokens: string[] = [];
    for await (const page of indexedClients(await operator.db())) tokens.push(...page);
    const [own, health] = await Promise.all([readOwnHealth(operator), healthOfClients(operator, tokens)]);
    return { ...seen, own, health, verdict: judge(own, health) };
  } catch (err) {
    if (!isRedisUnavailable(err)) throw err;
    const verdict: Verdict = { who: 'us', because: 'Redis does not answer.' };
    return { ...seen, health: { clients: [], broken: [] }, verdict };
  }
}

/** The client that is overdue the longest. */
function furthestBehind({ clients }: Health): ClientHealth | undefined {
  return clients.filter((c) => c.overdueMs > 0).sort((a, b) => b.overdueMs - a.overdueMs)[0];
}

const owedInAll = ({ clients }: Health): number => clients.reduce((sum, c) => sum + c.endpoint.owed, 0);
const owedTo = ({ clients }: Health): number => clients.filter((c) => c.endpoint.owed > 0).length;

function shown({ atMs, verdict, own, health, rates }: Look) {
  const behind = furthestBehind(health);
  return {
    at: moment(atMs),
    verdict: verdict.who,
    because: verdict.because,
    rates,
    lag_seconds: Math.round((behind?.overdueMs ?? 0) / 1000),
    lag_client: behind?.clientToken ?? null,
    owed: owedInAll(health),
    owed_clients: owedTo(health),
    redis_ms: own === undefined ? null : Math.round(own.redisMs * 10) / 10,
    temporal: own?.temporal ?? null,
    workers: own?.workers ?? null,
    broken_clients: health.broken,
    worst: worstOf(health.clients).map(shownClient),
  };
}

/** Without a terminal. */
function line({ atMs, verdict, health, rates }: Look): string {
  return [
    moment(atMs),
    `${verdict.who}: ${verdict.because}`,
    ...(rates === null ? [] : [ratesInWords(rates)]),
    `lag ${lagInWords(health)}`,
    `owed ${owedInAll(health)} to ${owedTo(health)}`,
  ].join('  ');
}

function picture({ atMs, verdict, own, health, rates }: Look): string {
  return [
    headline(verdict),
    '',
    facts({
      at: moment(atMs),
      rates: rates === null ? 'unknown (no metrics could be read)' : ratesInWords(rates),
      lag: lagInWords(health),
      owed: `${owedInAll(health)} to ${amount(owedTo(health), 'client')}`,
      redis: own && redisAsFact(own),
      temporal: own?.temporal,
      workers: own?.workers,
    }),
    '',
    worstTable(health.clients),
  ].join('\n');
}

function ratesInWords(rates: Rates): string {
  const { accepted_per_second, delivered_per_second, failed_attempts_per_second } = rates;
  return `${accepted_per_second}/s accepted, ${delivered_per_second}/s delivered, ${failed_attempts_per_second}/s failed`;
}

function lagInWords(health: Health): string {
  const behind = furthestBehind(health);
  return behind === undefined ? 'none' : `${span(behind.overdueMs)} (${behind.clientToken})`;
}

/** Draws from the upper left corner and erases the rest of an earlier, longer screen. */
function draw(text: string): void {
  const [home, wipeLine, wipeBelow] = ['\u001b[H', '\u001b[K', '\u001b[J'];
  process.stdout.write(`${home}${text.replaceAll('\n', `${wipeLine}\n`)}${wipeLine}\n${wipeBelow}`);
}
