/** Redis or Temporal away for some seconds: the API says so at once, and goes on by itself when they are back. */
import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { readConfig } from '../../src/config.js';
import { projectDir } from '../../src/embedded/projectDir.js';
import { createLogger } from '../../src/log.js';
import { type Db, openDb, waitForRedis } from '../../src/store/db.js';
import { createSecretBox } from '../../src/store/secretBox.js';
import { type Cast, createCast } from './cast.js';
import { pause } from './pause.js';
import { createSystem, type Part, parts, type System } from './system.js';

const awayMs = 5000;
/** What the contract promises while they are away, and for the time after. */
const answerWithinMs = 2000;
const recoverWithinMs = 5000;

describe('outages', function () {
  this.timeout(120_000);
  let system: System;
  let db: Db;
  let cast: Cast;
  let sent = 0;

  before(async () => {
    await mkdir(join(projectDir, '.data'), { recursive: true });
    system = await createSystem();
    await Promise.all(parts.map((part) => system.start(part)));
    await system.receiver.open();
    db = openDb({ url: system.redisUrl, prefix: '', log: createLogger('silent', 'faults') });
    await waitForRedis(db, 10_000);
    const box = createSecretBox(readConfig({ SECRETS_KEY: system.secretsKey }).SECRETS_KEY);
    cast = await createCast(db, box, system.apiUrl, system.receiver.url, 1);
  });

  after(async () => {
    db?.redis.disconnect();
    await system?.stop();
  });

  for (const part of ['redis', 'temporal'] as const satisfies readonly Part[]) {
    it(`${part} away: 503 with Retry-After within 2 s all the while, taken and delivered within 5 s of the return`, async () => {
      assert.equal((await publish()).status, 202);
      await system.kill(part);
      const until = Date.now() + awayMs;
      while (Date.now() < until) {
        const answer = await publish();
        assert.equal(answer.status, 503);
        assert.ok(answer.retryAfter !== null, 'no Retry-After');
        assert.ok(answer.tookMs < answerWithinMs, `503 after ${answer.tookMs} ms`);
        await pause(50);
      }
      await system.start(part);
      const back = Date.now();
      for (;;) {
        const answer = await publish();
        if (answer.notificationId !== undefined && (await received(answer.notificationId, back))) break;
        assert.ok(Date.now() - back < recoverWithinMs, 'not back within 5 s');
        await pause(50);
      }
      assert.deepEqual(system.brokenOff, []);
    });
  }

  async function publish(): Promise<{
    status: number;
    retryAfter: string | null;
    tookMs: number;
    notificationId?: string | undefined;
  }> {
    const from = Date.now();
    const response = await fetch(`${system.apiUrl}/enrichments`, {
      method: 'POST',
      headers: { authorization: `Bearer ${cast.platformToken}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        client_token: cast.clientTokens[0],
        platform_id: `video-${++sent}`,
        segments: ['a'],
      }),
    });
    const body = (await response.json()) as { notification_id?: string };
    return {
      status: response.status,
      retryAfter: response.headers.get('retry-after'),
      tookMs: Date.now() - from,
      notificationId: body.notification_id,
    };
  }

  async function received(notificationId: string, back: number): Promise<boolean> {
    while (Date.now() - back < recoverWithinMs) {
      if (system.receiver.arrivals.has(notificationId)) return true;
      await pause(20);
    }
    return false;
  }
});
