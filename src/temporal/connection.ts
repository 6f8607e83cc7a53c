import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection, defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client';
import type { DataConverter } from '@temporalio/common';
import { NativeConnection } from '@temporalio/worker';
import type { Config } from '../config.js';
import type { Logger } from '../log.js';

/**
 * For workers; a client over it may start workflows eagerly. Waits until the server answers. Not compressed: the server
 * is near, and its time and ours are worth more than the bytes.
 */
export async function connectNative(config: Config, log: Logger): Promise<NativeConnection> {
  const options = {
    ...config.temporalConnection,
    grpcCompression: { codec: 'none' as const },
  };
  // It fails at once on a closed port: starting up waits, and says for whom.
  for (let tries = 0; ; tries++) {
    try {
      return await NativeConnection.connect(options);
    } catch (err) {
      const reason = err instanceof Error ? err.message : String(err);
      if (tries % 20 === 0) log.warn({ address: config.TEMPORAL_ADDRESS, reason }, 'waiting for Temporal');
      await sleep(250);
    }
  }
}

/**
 * For processes that only call: there at once, also while Temporal is not. One try per call: who waits for it bounds its
 * time.
 */
export function connect(config: Config): Connection {
  return Connection.lazy({
    ...config.temporalConnection,
    channelArgs: {
      // After a long outage the next try must not be minutes away.
      'grpc.initial_reconnect_backoff_ms': 250,
      'grpc.max_reconnect_backoff_ms': 1000,
      // A line that died without a word is noticed within 20 s; a server takes no more pings than one in 10 s.
      'grpc.keepalive_time_ms': 10_000,
      'grpc.keepalive_timeout_ms': 10_000,
      'grpc.keepalive_permit_without_calls': 1,
    },
    interceptors: [makeGrpcRetryInterceptor(defaultGrpcRetryOptions({ maxAttempts: 1 }))],
  });
}

/** @param dataConverter of {@link loadDataConverter}; workers and whoever reads payloads take it from the client */
export function clientOf(
  connection: Connection | NativeConnection,
  config: Config,
  dataConverter: DataConverter,
): Client {
  return new Client({ connection, namespace: config.TEMPORAL_NAMESPACE, dataConverter });
}
