/**
 * Waits until writes are safe: on the disk of the server that took them, and on the disks of as many replicas as configured. In
 * a cluster each node confirms its own writes.
 */
import type { Redis } from 'ioredis';
import type { Logger } from '../../log.js';
import { type Db, RedisUnavailable } from './db.js';
import { clientBase } from './keys.js';
import { type NodeDurability, watchNode } from './nodeDurability.js';

export interface Durability {
  /**
   * Resolves once all writes answered so far about this client are safe.
   * @param clientToken or a recipient of notices (`toldAccount`)
   * @throws RedisUnavailable if that is not confirmed in time
   */
  reached(clientToken: string): Promise<void>;
  close(): void;
}

export interface DurabilityOptions {
  /** The store is durable by itself, as some managed stores are: there is no wait. */
  trusted: boolean;
  /** Replicas that must have it on their disks too. */
  ackReplicas: number;
  log: Logger;
}

/** Warns the operator, once, if an answered write is on no disk. */
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
      'redis is not durable: it has no append-only file (appendonly yes), or cannot confirm writes (WAITAOF). ' +
        'A crash loses accepted writes. If the store is durable by itself, set REDIS_DURABILITY=trusted',
    );
  }
  return {
    async reached(clientToken) {
      const node = db.nodes.sentOn(clientBase(db.prefix, clientToken));
      if (node === undefined || node.status === 'end') {
        throw new RedisUnavailable('the node of redis that keeps this client is unavailable');
      }
      await of(node).reached();
    },
    close() {
      for (const node of watched.values()) node.close();
      watched.clear();
    },
  };
}
