import assert from 'node:assert/strict';
import { Connection } from '@temporalio/client';
import { Redis } from 'ioredis';
import { servers } from '../servers.js';

describe('embedded servers', () => {
  it('Redis keeps what it has answered and packs hashes of known segments', async () => {
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

  it('Temporal has the search attributes that operators find an event by', async () => {
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
