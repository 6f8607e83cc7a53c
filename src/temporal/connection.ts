import { readFileSync } from 'node:fs';
import { Client, Connection, defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import type { Config } from '../config.js';
import type { Logger } from '../log.js';

function addressAndTls(config: Config) {
  const file = (path: string | undefined) => (path === undefined ? undefined : readFileSync(path));
  const crt = file(config.TEMPORAL_TLS_CLIENT_CERT_PATH);
  const key = file(config.TEMPORAL_TLS_CLIENT_KEY_PATH);
  const ca = file(config.TEMPORAL_TLS_SERVER_CA_CERT_PATH);
  const detailed = crt !== undefined || ca !== undefined || config.TEMPORAL_TLS_SERVER_NAME !== undefined;
  const tls = detailed
    ? {
        ...(config.TEMPORAL_TLS_SERVER_NAME === undefined
          ? {}
          : { serverNameOverride: config.TEMPORAL_TLS_SERVER_NAME }),
        ...(ca === undefined ? {} : { serverRootCACertificate: ca }),
        ...(crt === undefined || key === undefined ? {} : { clientCertPair: { crt, key } }),
      }
    : (config.TEMPORAL_TLS ?? config.TEMPORAL_API_KEY !== undefined);
  return {
    address: config.TEMPORAL_ADDRESS,
    tls,
    ...(config.TEMPORAL_API_KEY === undefined ? {} : { apiKey: config.TEMPORAL_API_KEY }),
  };
}

/** For workers; a client over it may start workflows eagerly. Waits until the server answers. */
export async function connectNative(config: Config, log: Logger): Promise<NativeConnection> {
  return await untilThere(log, config.TEMPORAL_ADDRESS, () =>
    NativeConnection.connect(addressAndTls(config)),
  );
}

/** For processes that only call. One try per call: the caller bounds its time and says 503 (DESIGN fact 4). */
export async function connect(config: Config, log: Logger): Promise<Connection> {
  return await untilThere(log, config.TEMPORAL_ADDRESS, () =>
    Connection.connect({
      ...addressAndTls(config),
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
