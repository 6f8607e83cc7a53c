import { Client, Connection, defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import type { Config } from '../config.js';
import type { Logger } from '../log.js';
import { addressAndTls } from './addressAndTls.js';
import { askServer } from './askServer.js';
import type { Line } from './line.js';

/**
 * For workers; a client over it may start workflows eagerly. Waits until the server answers. Not compressed: the server
 * is near, and its time and ours are worth more than the bytes.
 */
export async function connectNative(config: Config, log: Logger, line: Line): Promise<NativeConnection> {
  return await untilThere(config, log, line, () =>
    NativeConnection.connect({ ...through(config, line), grpcCompression: { codec: 'none' } }),
  );
}

/** For processes that only call. One try per call: the caller bounds its time and says 503 (DESIGN fact 4). */
export async function connect(config: Config, log: Logger, line: Line): Promise<Connection> {
  return await untilThere(config, log, line, () =>
    Connection.connect({
      ...through(config, line),
      channelArgs: {
        // After a long outage the next try must not be minutes away.
        'grpc.initial_reconnect_backoff_ms': 250,
        'grpc.max_reconnect_backoff_ms': 1000,
      },
      interceptors: [makeGrpcRetryInterceptor(defaultGrpcRetryOptions({ maxAttempts: 1 }))],
    }),
  );
}

function through(config: Config, line: Line) {
  return addressAndTls(config, `127.0.0.1:${line.port}`, config.TEMPORAL_TLS_SERVER_NAME ?? line.host);
}

export function clientOf(connection: Connection | NativeConnection, config: Config): Client {
  return new Client({ connection, namespace: config.TEMPORAL_NAMESPACE });
}

/** `connect` fails at once on a closed port: starting up waits, and says for whom. */
async function untilThere<T extends Connection | NativeConnection>(
  config: Config,
  log: Logger,
  line: Line,
  connectOnce: () => Promise<T>,
): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      const connection = await connectOnce();
      line.watch(() => askServer(connection, askWithinMs));
      return connection;
    } catch (err) {
      if (tries % 20 === 0) {
        log.warn(
          {
            address: config.TEMPORAL_ADDRESS,
            reason: err instanceof Error ? err.message : String(err),
          },
          'waiting for Temporal',
        );
      }
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  }
}

const askWithinMs = 1000;
