import assert from 'node:assert/strict';
import { callRaw, type RawCaller, statusesIn } from '../api/rawCaller.js';
import { type Service, startService } from '../e2e/service.js';
import { form } from './form.js';

const mib = 1024 * 1024;

describe('many slow connections', function () {
  this.timeout(180_000);
  let service: Service;

  before(async () => {
    service = await startService({ LOG_LEVEL: 'warn' }, 'api');
  });
  after(() => service.stop());

  /** Callers of one kind, opened a hundred at a time; resolves with how long each lived, ms. */
  async function open(
    count: number,
    bytes: string,
  ): Promise<{ caller: RawCaller; livedMs: Promise<number> }[]> {
    const all: { caller: RawCaller; livedMs: Promise<number> }[] = [];
    while (all.length < count) {
      const some = Array.from({ length: Math.min(100, count - all.length) }, () => {
        const caller = callRaw(service.url, bytes);
        const from = performance.now();
        return { caller, livedMs: caller.closed.then(() => performance.now() - from) };
      });
      await Promise.all(some.map(({ caller }) => new Promise((r) => caller.socket.once('connect', r))));
      all.push(...some);
    }
    return all;
  }

  async function residentMib(): Promise<number> {
    const text = await (await fetch(`${service.adminUrl}/metrics`)).text();
    return Number(/^process_resident_memory_bytes (\d+)/m.exec(text)?.[1]) / mib;
  }

  async function slowestAnswerMs(): Promise<number> {
    let slowest = 0;
    for (let i = 0; i < 50; i++) {
      const from = performance.now();
      const answer = await fetch(`${service.url}/openapi.json`);
      assert.equal(answer.status, 200);
      await answer.body?.cancel();
      slowest = Math.max(slowest, performance.now() - from);
    }
    return slowest;
  }

  it(`${form.idleConnections} idle ones, half requests and slow bodies: others are answered, each is closed in its time, memory comes back`, async () => {
    const alone = await slowestAnswerMs();
    const before = await residentMib();
    const share = form.idleConnections / 10;
    const idle = await open(form.idleConnections, '');
    const halves = await open(share, 'POST /enrichments HTTP/1.1\r\nhost: x\r\nx-more: ');
    const bodies = await open(
      share,
      'POST /oauth/access_token HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: 9999\r\n\r\na=1',
    );
    const meanwhile = await residentMib();
    const beside = await slowestAnswerMs();
    const slowest = async (of: typeof idle) =>
      Math.max(...(await Promise.all(of.map((one) => one.livedMs)))) / 1000;
    const lived = { idle: await slowest(idle), half: await slowest(halves), body: await slowest(bodies) };
    for (const { caller } of [...halves, ...bodies]) assert.deepEqual(statusesIn(caller.heard()), [408]);
    const after = await residentMib();
    console.log(
      `      closed after at most ${lived.idle.toFixed(1)} s (idle), ${lived.half.toFixed(1)} s (half), ` +
        `${lived.body.toFixed(1)} s (body); ${before.toFixed(0)}, ${meanwhile.toFixed(0)}, ${after.toFixed(0)} MiB ` +
        `before, with and after; the slowest of 50 answers ${alone.toFixed(0)} ms before, ${beside.toFixed(0)} ms with them`,
    );
    assert.ok(lived.idle < 25 && lived.half < 25 && lived.body < 50);
    assert.ok(after - before < 200);
    assert.equal((await fetch(`${service.url}/readyz`)).status, 200);
    assert.doesNotMatch(service.said(), /unexpected error|"level":(50|60)/);
  });
});
