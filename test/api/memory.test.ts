import assert from 'node:assert/strict';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type Koa from 'koa';
import { Pool } from 'undici';
import { type ListeningServer, listen } from '../../src/api/server.js';

describe('Memory of answered requests', () => {
  const kilobytes = 16;
  const connections = 50;
  let server: ListeningServer;
  let pool: Pool;

  before(async () => {
    const answer = (_: IncomingMessage, res: ServerResponse & { weight?: number[] }) => {
      res.weight = new Array(kilobytes * 128).fill(0.5);
      setTimeout(() => res.end(), 3);
    };
    server = await listen({ HOST: '127.0.0.1', PORT: 0 }, { callback: () => answer } as unknown as Koa);
    pool = new Pool(`http://127.0.0.1:${server.port}`, { connections, pipelining: 1 });
  });
  after(async () => {
    await pool.close();
    await server.close();
  });

  it('is freed without a full collection', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as (options?: { type: 'minor' }) => void;
    const get = async () => {
      const { body } = await pool.request({ path: '/', method: 'GET' });
      await body.dump();
    };
    let answered = 0;
    const ask = async (times: number) => {
      const lane = async () => {
        for (let i = 0; i < times; i++) {
          await get();
          if (++answered % 100 === 0) collect({ type: 'minor' });
        }
      };
      await Promise.all(Array.from({ length: connections }, lane));
    };
    await ask(20);
    collect();
    const before = getHeapStatistics().used_heap_size;
    await ask(100);
    const grown = getHeapStatistics().used_heap_size - before;
    assert.ok(
      grown < (100 * connections * kilobytes * 1024) / 4,
      `${Math.round(grown / 2 ** 20)} MB more in use`,
    );
  });
});
