/**
 * When a write is safe: on the disk of the server that took it, and on those of as many replicas as asked for. In a
 * cluster each node is asked by itself, for the writes of its own.
 */
import type { Redis } from 'ioredis';
import type { Logger } from '../../log.js';
import { type Db, RedisUnavailable } from './db.js';
import { type NodeDurability, watchNode } from './nodeDurability.js';

export interface Durability {
  /**
   * Resolves once all that Redis has answered so far about this client is safe.
   * @throws RedisUnavailable where that is not confirmed in time
   */
  reached(clientToken: string): Promise<void>;
  close(): void;
}

export interface DurabilityOptions {
  /** The store is durable by itself, as a managed one says of itself: nothing is waited for. */
  trusted: boolean;
  /** Replicas that must have it on their disks too. */
  ackReplicas: number;
  log: Logger;
}

/** Tells the operator, once, where a write is on no disk when it is answered. */
export async function openDurability(db: Db, options: DurabilityOptions): Promise<Durability> {
  if (options.trusted) return { reached: () => Promise.resolve(), close: () => undefined };
  const watched = new Map<Redis, NodeDurability>();
  const of = (node: Redis): NodeDurability => {
    let found = watched.get(node);
    if (found === undefined) {
      found = watchNode(db, node, options.ackReplicas);
      watched.set(node, found);
      // A node of a cluster that comes back has another connection.
      node.once('end', () => {
        watched.get(node)?.close();
        watched.delete(node);
      });
    }
    return found;
  };
  const canConfirm = await Promise.all(db.nodes.primaries().map((node) => of(node).canConfirm()));
  if (canConfirm.includes(false)) {
    options.log.warn(
      'redis is not durable: it has no append-only file (appendonly yes), or cannot say what is in it (WAITAOF). ' +
        'What it loses in a crash is lost. Where the store is durable by itself, REDIS_DURABILITY=trusted says so',
    );
  }
  return {
    async reached(clientToken) {
      const node = db.nodes.sentOn(db.client(clientToken).base);
      if (node === undefined || node.status === 'end') {
        throw new RedisUnavailable('the node of redis that keeps this client is away');
      }
      await of(node).reached();
    },
    close() {
      for (const node of watched.values()) node.close();
      watched.clear();
    },
  };
}
