/**
 * A process: sends the requests of a job and records when each was sent and answered. At a fixed rate the recorded
 * time is the time at which the request was due, so that a slow answer does not hide the delay of later requests
 * (no coordinated omission).
 */
import { Pool } from 'undici';
import type { FromPublisher, Job, Pace, Published, ToPublisher } from './jobs.js';
import { monotonicMs } from './processUsage.js';
import { type Outgoing, type RequestSource, requestSource } from './requestSource.js';

process.on('message', async (message: ToPublisher) => {
  tell({ kind: 'published', published: await publish(message.job) });
});
process.on('disconnect', () => process.exit());
tell({ kind: 'ready' });

/** Enough connections, so that no request at a fixed rate waits for one. */
const connectionsAtRate = 512;

async function publish(job: Job): Promise<Published> {
  const connections = job.pace.kind === 'concurrency' ? job.pace.publishers : connectionsAtRate;
  const pools = job.baseUrls.map((url) => new Pool(url, { connections, pipelining: 1 }));
  const start = monotonicMs();
  const from = start + job.warmUpMs;
  const source = requestSource(job);
  const end = from + job.durationMs;
  const published: Published = {
    from,
    to: end,
    answers: { at: [], answeredAt: [] },
    events: source.events,
    refusals: {},
    givenUp: 0,
  };
  setTimeout(() => tell({ kind: 'measuring' }), job.warmUpMs);
  const measured = setTimeout(() => tell({ kind: 'measured' }), job.warmUpMs + job.durationMs);
  let sent = 0;
  const send = async (outgoing: Outgoing, at: number) => {
    const pool = pools[sent++ % pools.length];
    if (pool) await sendUntilTaken(pool, outgoing, at, end, published);
  };
  if (job.pace.kind === 'concurrency') await closedLoop(job.pace, source, end, send);
  else await openLoop(job.pace, source, start, end, send);
  const now = monotonicMs();
  if (now < end) {
    clearTimeout(measured);
    published.to = now;
    tell({ kind: 'measured' });
  }
  for (const pool of pools) await pool.close();
  return published;
}

type Send = (outgoing: Outgoing, at: number) => Promise<void>;

async function closedLoop(
  pace: Extract<Pace, { kind: 'concurrency' }>,
  source: RequestSource,
  end: number,
  send: Send,
): Promise<void> {
  const one = async () => {
    for (;;) {
      const now = monotonicMs();
      const outgoing = now < end ? source.next() : undefined;
      if (outgoing === undefined) return;
      await send(outgoing, now);
    }
  };
  await Promise.all(Array.from({ length: pace.publishers }, one));
}

async function openLoop(
  pace: Extract<Pace, { kind: 'rate' }>,
  source: RequestSource,
  start: number,
  end: number,
  send: Send,
): Promise<void> {
  const intervalMs = 1000 / pace.requestsPerSecond;
  const sent: Promise<void>[] = [];
  for (let i = 0; ; i++) {
    const at = start + i * intervalMs;
    if (at >= end) break;
    // Timers fire up to 1 ms early: a request sent before its time would look faster than it was.
    for (let waitMs = at - monotonicMs(); waitMs > 0; waitMs = at - monotonicMs()) {
      await new Promise((resolve) => setTimeout(resolve, waitMs));
    }
    const outgoing = source.next();
    if (outgoing === undefined) break;
    sent.push(send(outgoing, at));
  }
  await Promise.all(sent);
}

/** How long after the end a request that gets 503 is still repeated. */
const patienceMs = 10_000;

async function sendUntilTaken(
  pool: Pool,
  outgoing: Outgoing,
  at: number,
  end: number,
  published: Published,
): Promise<void> {
  for (;;) {
    let waitMs = 100;
    try {
      const { statusCode, headers, body } = await pool.request(outgoing.request);
      const text = await body.text();
      if (statusCode >= 200 && statusCode < 300) {
        return take(published, outgoing, text, at);
      }
      count(published, String(statusCode));
      if (statusCode !== 503) {
        published.oddity ??= `${statusCode} ${text.slice(0, 300)}`;
        published.givenUp++;
        return;
      }
      waitMs = Math.min(1000, Number(headers['retry-after'] ?? 1) * 1000);
    } catch (err) {
      count(published, err instanceof Error && 'code' in err ? String(err.code) : String(err));
    }
    if (monotonicMs() + waitMs > end + patienceMs) {
      published.givenUp++;
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, waitMs));
  }
}

function take(published: Published, outgoing: Outgoing, text: string, at: number): void {
  published.answers.at.push(at);
  published.answers.answeredAt.push(monotonicMs());
  const oddities = outgoing.onSuccess(text, at);
  if (oddities[0] !== undefined) published.oddity ??= oddities[0];
  for (const _ of oddities) count(published, 'in a 2xx');
}

function count(published: Published, what: string): void {
  published.refusals[what] = (published.refusals[what] ?? 0) + 1;
}

function tell(message: FromPublisher): void {
  process.send?.(message);
}
