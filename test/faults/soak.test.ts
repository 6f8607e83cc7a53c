/**
 * Mixed load with nothing broken: events, tokens, registrations and look-ups. The memory and the open files of API,
 * worker and Redis stay what they are once all is warm, and nothing is lost.
 */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { callApi } from '../service.js';
import { assertKept, type FaultRun, startFaultRun } from './faultRun.js';
import { form } from './form.js';
import { startLoop } from './load.js';
import { publishAll } from './scene.js';

const clients = 2;
/** With as many notifications and, in an hour, updates of a client Redis holds what it will hold. */
const keptPerClient = form.soakMinutes < 30 ? 10_000 : 100_000;
const sampleEveryMs = 1000;
/** A leak shows as growth; what garbage collection leaves lying in a short run does not count as one. */
const growthAtMost = 0.25;
const watched = ['api', 'worker', 'redis'] as const;

describe(`${form.soakMinutes} minutes of mixed load`, function () {
  this.timeout(form.soakMinutes * 60_000 + 600_000);
  let run: FaultRun;
  let asked = 0;

  before(async () => {
    // glibc's default: the larger cache of local/redis.ts fills for hours, and would hide a leak.
    process.env.GLIBC_TUNABLES = 'glibc.malloc.tcache_count=7';
    run = await startFaultRun({
      clients,
      assetsPerClient: 200,
      publishers: 4,
      pauseMs: 200,
      // Little of what Redis has to keep for long: its memory would only say how much was asked of it.
      mintEveryMs: 2000,
      registerEveryMs: 5000,
    });
    await fillRecords();
  });
  after(() => {
    delete process.env.GLIBC_TUNABLES;
    return run?.stop();
  });

  it('keep memory and open files flat, and lose nothing', async () => {
    const { system, publisher } = run;
    const lookups = startLoop(lookUp, () => 50);
    // The memory of a process while its caches and its code warm up.
    await pause(Math.min(form.soakMinutes * 15_000, 300_000));
    const samples = new Map<string, Sample[]>(watched.map((part) => [part, []]));
    const from = Date.now();
    while (Date.now() - from < form.soakMinutes * 60_000) {
      for (const part of watched) {
        const figures = await figuresOf(system.pidOf(part) ?? 0);
        if (figures) samples.get(part)?.push({ hours: (Date.now() - from) / 3_600_000, ...figures });
      }
      await run.accountSoFar();
      await pause(sampleEveryMs);
    }
    await lookups();
    run.note(`none: ${form.soakMinutes} min of mixed load`, 0);
    const perSecond = publisher.acknowledged.length / ((Date.now() - from) / 1000);

    for (const part of watched) {
      const taken = samples.get(part) ?? [];
      const [first, last] = [taken[0], taken.at(-1)];
      if (first === undefined || last === undefined) continue;
      const mbPerHour = slopeOf(taken.map(({ hours, residentMb }) => ({ x: hours, y: residentMb })));
      const filesPerHour = slopeOf(taken.map(({ hours, files }) => ({ x: hours, y: files })));
      const meanMb = taken.reduce((sum, one) => sum + one.residentMb, 0) / taken.length;
      const growth = (mbPerHour * last.hours) / meanMb;
      console.log(
        `${part} over ${form.soakMinutes} min of mixed load: ${meanMb.toFixed(0)} MB in the mean, ` +
          `slope ${mbPerHour.toFixed(1)} MB/h; ${first.files} open files at first, ${last.files} at last.`,
      );
      assert.ok(growth < growthAtMost, `${part} grows by ${mbPerHour} MB/h`);
      assert.ok(filesPerHour * last.hours < 20, `${part}: ${filesPerHour} open files more in an hour`);
    }
    assert.ok(perSecond > 1);
    const account = await run.account();
    console.table(account.rows);
    assertKept(account, clients);
  });

  /** Makes one of the calls of the publisher's engineers. */
  async function lookUp(): Promise<void> {
    const { system, cast } = run;
    const client = cast.clientTokens[asked++ % clients];
    const path = ['/push_notifications', '/notifications', '/assets/video-1'][asked % 3];
    await callApi(cast.publisherToken, 'GET', `${system.apiUrl}${path}?client_token=${client}`);
  }

  /** Until every client has as many notifications as are kept. */
  async function fillRecords(): Promise<void> {
    const { cast } = run;
    await Promise.all(
      cast.clientTokens.map(async (client_token) => {
        for (let sent = 0; sent < keptPerClient; ) {
          // An event that got 503 may have been accepted: its repeat tells the same id.
          const events = Array.from({ length: 500 }, (_, i) => {
            const name = `kept-${sent + i}`;
            return { client_token, platform_id: name, event_id: name, segments: ['a'] };
          });
          const { status, results } = await publishAll(run, events);
          // Single events of a batch may be unknown too.
          const isTaken = status === 202 && results.every(({ code }) => code === undefined);
          if (isTaken) sent += events.length;
          else await pause(100);
          // The publisher's earliest records give way to these.
          await run.accountSoFar();
        }
      }),
    );
  }
});

interface Sample {
  hours: number;
  residentMb: number;
  files: number;
}

/** Memory and open files of a process now; undefined if the system does not report them (no /proc). */
async function figuresOf(pid: number): Promise<{ residentMb: number; files: number } | undefined> {
  try {
    const status = await readFile(`/proc/${pid}/status`, 'utf8');
    const files = (await readdir(`/proc/${pid}/fd`)).length;
    return { residentMb: Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1024, files };
  } catch {
    return undefined;
  }
}

/** The slope of the least-squares line, per unit of x. */
function slopeOf(points: readonly { x: number; y: number }[]): number {
  const mean = (of: (point: { x: number; y: number }) => number) =>
    points.reduce((sum, point) => sum + of(point), 0) / points.length;
  const [x, y] = [mean((p) => p.x), mean((p) => p.y)];
  const above = points.reduce((sum, p) => sum + (p.x - x) * (p.y - y), 0);
  return above / points.reduce((sum, p) => sum + (p.x - x) ** 2, 0);
}
