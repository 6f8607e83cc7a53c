import { Client, Connection, defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import type { Config } from '../config.js';
import type { Logger } from '../log.js';
import { addressAndTls } from './addressAndTls.js';

/** For workers; a client over it may start workflows eagerly. Waits until the server answers. */
export async function connectNative(config: Config, log: Logger): Promise<NativeConnection> {
  return await untilThere(log, config.TEMPORAL_ADDRESS, () =>
    NativeConnection.connect(addressAndTls(config, config.TEMPORAL_ADDRESS)),
  );
}

/** For processes that only call. One try per call: the caller bounds its time and says 503 (DESIGN fact 4). */
export async function connect(config: Config, log: Logger): Promise<Connection> {
  return await untilThere(log, config.TEMPORAL_ADDRESS, () =>
    Connection.connect({
      ...addressAndTls(config, config.TEMPORAL_ADDRESS),
      // A dead connection is noticed by its pings; the server takes none more often (frontend.keepAliveMinTime).
      channelArgs: { 'grpc.keepalive_time_ms': 10_000, 'grpc.keepalive_timeout_ms': 3000 },
      interceptors: [makeGrpcRetryInterceptor(defaultGrpcRetryOptions({ maxAttempts: 1 }))],
    }),
  );
}

export function clientOf(connection: Connection | NativeConnection, config: Config): Client {
  return new Client({ connection, namespace: config.TEMPORAL_NAMESPACE });
}

/** `connect` fails at once on a closed port: starting up waits, and says for whom. */
async function untilThere<T>(log: Logger, address: string, connectOnce: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await connectOnce();
    } catch (err) {
      if (tries % 20 === 0) {
        log.warn(
          { address, reason: err instanceof Error ? err.message : String(err) },
          'waiting for Temporal',
        );
      }
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  }
}
