import assert from 'node:assert/strict';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Connection } from '@temporalio/client';
import { Redis } from 'ioredis';
import { startChild, waitUntilReady } from '../../local/child.js';
import { freePort } from '../../local/ports.js';
import { servers } from '../servers.js';

describe('embedded servers', () => {
  it('have ports outside the range of outgoing connections', async () => {
    const ports = await Promise.all(Array.from({ length: 100 }, () => freePort()));
    assert.equal(new Set(ports).size, ports.length);
    assert.ok(Math.max(...ports) < 32_768 && Math.min(...ports) > 1024, ports.join());
  });

  it('are reported as ended if they end before they answer', async () => {
    const child = await startChild({
      ...{ name: 'server', command: process.execPath, args: ['-e', 'throw new Error("its port is taken")'] },
      logFile: join(await mkdtemp(join(tmpdir(), 'asset-update-test-')), 'server.log'),
    });
    const silent = () => new Promise<boolean>(() => undefined);
    await assert.rejects(
      waitUntilReady(child, silent, 60_000),
      /server ended: exit status 1[\s\S]*its port is taken/,
    );
  });

  it('Redis keeps answered writes and packs hashes of known segments', async () => {
    const redis = new Redis(servers().redisUrl);
    try {
      assert.deepEqual(await redis.config('GET', 'appendonly'), ['appendonly', 'yes']);
      assert.deepEqual(await redis.config('GET', 'appendfsync'), ['appendfsync', 'always']);
      assert.deepEqual(await redis.config('GET', 'hash-max-listpack-value'), [
        'hash-max-listpack-value',
        '256',
      ]);
    } finally {
      redis.disconnect();
    }
  });

  it('Temporal has the search attributes by which operators find an event', async () => {
    const connection = await Connection.connect({ address: servers().temporalAddress });
    try {
      const { customAttributes } = await connection.operatorService.listSearchAttributes({
        namespace: 'default',
      });
      const names = ['ClientToken', 'EventId', 'HttpStatus', 'NotificationState', 'PlatformId'];
      assert.deepEqual(
        Object.keys(customAttributes)
          .filter((n) => names.includes(n))
          .sort(),
        names,
      );
    } finally {
      await connection.close();
    }
  });
});
