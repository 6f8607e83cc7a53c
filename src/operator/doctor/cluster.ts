/** Checks a Redis Cluster as a whole; each of its primaries is also checked like a single Redis. */
import type { Db } from '../../redis/connection/db.js';
import { type Finding, fail, ok, warn } from './finding.js';
import { fieldsOf, readSettings } from './readServer.js';

/** A failover takes this long and one or two seconds more, so clients are served again within 15 s. */
const nodeTimeoutMs = 10_000;
const allSlots = 16_384;

/** Returns findings about a cluster; none about a single Redis. */
export async function checkCluster({ nodes }: Db): Promise<Finding[]> {
  const [first] = nodes.primaries();
  if (!nodes.isCluster || first === undefined) return [];
  const info = fieldsOf(String(await first.cluster('INFO')));
  const shards = (await first.cluster('SLOTS')) as unknown[][];
  return [ofSlots(Number(info.cluster_slots_ok)), ofReplicas(shards), await ofSettings(first)];
}

function ofSlots(served: number): Finding {
  if (served === allSlots) return ok('redis cluster', 'Every slot has a primary that answers.');
  const found = `${allSlots - served} of ${allSlots} slots have none.`;
  return fail('redis cluster', found, 'Check CLUSTER NODES: clients of those slots get 503.');
}

/** An entry of CLUSTER SLOTS: from, to, the primary, then each replica. */
function ofReplicas(shards: readonly unknown[][]): Finding {
  const check = 'redis cluster replicas';
  const alone = shards.filter((shard) => shard.length < 4).length;
  if (alone === 0) return ok(check, 'Every primary has a replica.');
  return warn(
    check,
    `${alone} of ${shards.length} ranges of slots have no replica.`,
    'Nothing takes over if their primary is lost: give each a replica.',
  );
}

async function ofSettings(node: Db['redis']): Promise<Finding> {
  const check = 'redis cluster settings';
  const settings = await readSettings(node, ['cluster-*']);
  if (settings === undefined) {
    const todo = `Make sure that the provider sets: cluster-node-timeout ${nodeTimeoutMs} or less, cluster-require-full-coverage no.`;
    return warn(check, 'CONFIG GET is forbidden, so they cannot be read.', todo);
  }
  const timeout = Number(settings['cluster-node-timeout']);
  const coverage = settings['cluster-require-full-coverage'];
  const found = `cluster-node-timeout ${timeout}, cluster-require-full-coverage ${coverage}.`;
  if (timeout > nodeTimeoutMs) {
    return warn(check, found, 'A failover takes longer than 15 s. Set cluster-node-timeout to 5000.');
  }
  if (coverage === 'yes') {
    const todo =
      'A lost primary stops every client, not only its own. Set cluster-require-full-coverage to no.';
    return warn(check, found, todo);
  }
  return ok(check, found);
}
