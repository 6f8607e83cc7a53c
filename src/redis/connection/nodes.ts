import type { Redis } from 'ioredis';

/** The servers behind the commands: one Redis, or the primaries of a cluster. */
export interface Nodes {
  isCluster: boolean;
  /** Returns connections to all known servers that take writes. */
  primaries(): Redis[];
  /** Returns the connection to the server that keeps this key; undefined if none is known. */
  ownerOf(key: string): Redis | undefined;
  /** Reads again which server keeps which key. */
  refresh(): void;
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
    ownerOf: () => redis,
    refresh() {},
    // After a reconnect another server may answer, or one that has lost its last second.
    onLost: (listener) => void redis.on('close', listener),
    ping: () => redis.ping(),
    echo: () => redis.echo(''),
  };
}
