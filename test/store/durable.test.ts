import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RedisServer, startRedis } from '../../src/embedded/redis.js';
import type { Logger } from '../../src/log.js';
import { unconfirmedMs, waitForDisk, warnUnlessDurable } from '../../src/store/durable.js';
import { newCustomer, newToken, startApi } from '../api/runningApi.js';
import { servers } from '../servers.js';

describe('waiting for the disk', () => {
  let dir: string;
  let forgetful: RedisServer;

  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'asset-update-forgetful-'));
    forgetful = await startRedis({ dir, binary: servers().redisServerBinary, args: ['--appendonly', 'no'] });
  });
  after(async () => {
    await forgetful.stop();
    await rm(dir, { recursive: true, force: true });
  });

  async function warnings(redisUrl: string): Promise<{ onDisk: boolean; said: string[] }> {
    const api = await startApi({ redisUrl });
    const said: string[] = [];
    const log = { warn: (line: string) => said.push(line) } as unknown as Logger;
    await warnUnlessDurable(api.deps.db, log);
    const onDisk = await waitForDisk(api.deps.db);
    await api.close();
    return { onDisk, said };
  }

  it('a Redis without an append-only file is warned of; one that has it is not', async () => {
    const without = await warnings(forgetful.url);
    assert.equal(without.onDisk, false);
    assert.match(without.said.join(), /redis is not durable/);
    assert.deepEqual(await warnings(servers().redisUrl), { onDisk: true, said: [] });
  });

  it('a registration’s 200 waits 2 s where the server cannot say what is on its disk', async () => {
    const api = await startApi({ redisUrl: forgetful.url });
    const customer = await newCustomer(api);
    const query = new URLSearchParams({
      access_token: await newToken(api, customer),
      client_token: customer.client_token,
      url: 'http://127.0.0.1:9/hook',
    });
    const begun = performance.now();
    const answer = await fetch(`${api.url}/register_push_notifications?${query}`, { method: 'POST' });
    const tookMs = performance.now() - begun;
    await api.close();
    assert.equal(answer.status, 200);
    assert.ok(tookMs >= unconfirmedMs - 1, `answered after ${tookMs} ms`);
  });
});
