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

/** Resolves once each server was asked. The operator is warned when an answered write is on no disk. */
export async function openDurability(db: Db, options: DurabilityOptions): Promise<Durability> {
  if (options.trusted) return { reached: () => Promise.resolve(), close: () => undefined };
  const watched = new Map<Redis, NodeDurability>();
  const of = (node: Redis): NodeDurability => {
    let found = watched.get(node);
    if (found === undefined) {
      found = watchNode(db, node, options.ackReplicas, options.log);
      watched.set(node, found);
      // A node of a cluster that comes back has another connection.
      node.once('end', () => {
        watched.get(node)?.close();
        watched.delete(node);
      });
    }
    return found;
  };
  await Promise.all(db.nodes.primaries().map((node) => of(node).asked()));
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
