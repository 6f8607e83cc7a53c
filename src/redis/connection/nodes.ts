import type { Redis } from 'ioredis';

/** The servers behind the commands: one Redis, or the primaries of a cluster. */
export interface Nodes {
  isCluster: boolean;
  /** Connections to all that take writes, as far as they are known now. */
  primaries(): Redis[];
  /**
   * Returns the connection on which the last command of this key's slot went out, or else would go now; undefined where no
   * node has the slot. A node of a cluster that was lost and is there again has another connection.
   */
  sentOn(key: string): Redis | undefined;
  /** Names a key that lies on this node, beginning with `name`, and is not `other`; undefined where none is found. */
  keyOn(node: Redis, name: string, other?: string): string | undefined;
  /** Has `listener` told when from now on a server may answer that has lost what was answered before. */
  onLost(listener: () => void): void;
  /** Resolves once a server answers. @throws what it throws */
  ping(): Promise<unknown>;
}

/** Describes one Redis, also one that Sentinels name. */
export function singleNode(redis: Redis): Nodes {
  const only = [redis];
  return {
    isCluster: false,
    primaries: () => only,
    sentOn: () => redis,
    keyOn: (_, name) => name,
    // After a reconnect another server may answer, or one that has lost its last second.
    onLost: (listener) => void redis.on('close', listener),
    ping: () => redis.ping(),
  };
}
