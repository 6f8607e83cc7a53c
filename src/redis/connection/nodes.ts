import type { Redis } from 'ioredis';

/** The servers behind the commands: one Redis, or the primaries of a cluster. */
export interface Nodes {
  isCluster: boolean;
  /** Returns connections to all known servers that take writes. */
  primaries(): Redis[];
  /**
   * Returns the connection that sent the last command of this key's slot, or else would send it now; undefined if no
   * node has the slot. A node of a cluster that was lost and is back has another connection.
   */
  sentOn(key: string): Redis | undefined;
  /** Returns a key of this node that begins with `name` and is not `other`; undefined if none is found. */
  keyOn(node: Redis, name: string, other?: string): string | undefined;
  /** Calls `listener` when a server may answer from now on that has lost answered writes. */
  onLost(listener: () => void): void;
  /** Resolves once a server answers. @throws the error of the first server if none answers */
  ping(): Promise<unknown>;
  /** Like `ping`, which Redis refuses after a failed write to disk. */
  echo(): Promise<unknown>;
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
    echo: () => redis.echo(''),
  };
}
