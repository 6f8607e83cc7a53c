import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection, defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import type { Config } from '../config.js';
import type { Logger } from '../log.js';
import { type CallObserver, observeCalls } from './observeCalls.js';
import { isTemporalUnavailable } from './unavailable.js';

/**
 * Connects a worker; a client over this connection may start workflows eagerly. Waits until the server answers. Calls are
 * not compressed: the server is near, so time matters more than bytes.
 */
export async function connectNative(config: Config, log: Logger): Promise<NativeConnection> {
  const options = {
    ...config.temporalConnection,
    grpcCompression: { codec: 'none' as const },
  };
  // A closed port fails immediately: the process waits, and logs for which server.
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
 * Connects a process without a worker. Returns immediately, even while Temporal is unavailable. Each call is tried once: the caller
 * bounds its time.
 */
export function connect(config: Config): Connection {
  return Connection.lazy({
    ...config.temporalConnection,
    channelArgs: {
      // After a long outage the next try must not be minutes away.
      'grpc.initial_reconnect_backoff_ms': 250,
      'grpc.max_reconnect_backoff_ms': 1000,
      // A silent connection is noticed within 20 s; a server accepts at most one ping in 10 s.
      'grpc.keepalive_time_ms': 10_000,
      'grpc.keepalive_timeout_ms': 10_000,
      'grpc.keepalive_permit_without_calls': 1,
    },
    interceptors: [makeGrpcRetryInterceptor(defaultGrpcRetryOptions({ maxAttempts: 1 }))],
  });
}

export function clientOf(
  connection: Connection | NativeConnection,
  config: Config,
  observe?: CallObserver,
): Client {
  const interceptors = observe === undefined ? {} : { workflow: [observeCalls(observe)] };
  return new Client({ connection, namespace: config.TEMPORAL_NAMESPACE, interceptors });
}

/** Asks the server for its version, for at most `withinMs`. @throws if it does not answer */
export function askServer(connection: Connection | NativeConnection, withinMs: number): Promise<unknown> {
  return connection.withDeadline(Date.now() + withinMs, () => connection.workflowService.getSystemInfo({}));
}

/**
 * Repeats a call at the start of a process while Temporal is unavailable or not ready: its frontend answers some seconds before
 * its history service. @throws any other failure of the call
 */
export async function untilAvailable(call: () => Promise<void>, log: Logger): Promise<void> {
  for (let told = false; ; told = true) {
    try {
      return await call();
    } catch (err) {
      if (!isTemporalUnavailable(err)) throw err;
      if (!told) log.warn({ err }, 'waiting for Temporal');
      await sleep(250);
    }
  }
}
