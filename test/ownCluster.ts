import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RedisCluster, startCluster } from '../local/redisCluster.js';
import { quiet, servers } from './servers.js';

/** Starts a Redis Cluster of three primaries for one suite, in a folder that its `stop` removes. */
export async function startOwnCluster(nodeTimeoutMs = quiet.nodeTimeoutMs): Promise<RedisCluster> {
  const dir = await mkdtemp(join(tmpdir(), 'asset-update-cluster-'));
  const cluster = await startCluster({
    ...{ dir, binary: servers().redisServerBinary, replicasOfEach: 0 },
    nodeTimeoutMs,
  });
  return {
    ...cluster,
    async stop() {
      await cluster.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}
