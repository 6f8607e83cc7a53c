import { setTimeout as sleep } from 'node:timers/promises';
import {
  Client,
  Connection,
  defaultGrpcRetryOptions,
  makeGrpcRetryInterceptor,
  type WorkflowClientInterceptor,
  WorkflowNotFoundError,
} from '@temporalio/client';
import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import type { NativeConnection } from '@temporalio/worker';
import type { Config } from '../config.js';
import { type Logger, messageOf } from '../log.js';

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

export function createTemporalClient(
  connection: Connection | NativeConnection,
  config: Config,
  observe?: CallObserver,
): Client {
  const interceptors = observe === undefined ? {} : { workflow: [observeCalls(connection, observe)] };
  return new Client({ connection, namespace: config.TEMPORAL_NAMESPACE, interceptors });
}

/** Asks the server for its version, for at most `withinMs`. @throws if it does not answer */
export function askServer(connection: Connection | NativeConnection, withinMs: number): Promise<unknown> {
  return connection.withDeadline(Date.now() + withinMs, () => connection.workflowService.getSystemInfo({}));
}

/**
 * Repeats a call at the start of a process while Temporal is unavailable or not ready: its frontend answers some seconds before
 * its history service. Logs every 5 s for which server the process waits. @throws any other failure of the call
 */
export async function untilAvailable<T>(address: string, log: Logger, call: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await call();
    } catch (err) {
      if (!isTemporalUnavailable(err)) throw err;
      if (tries % 20 === 0) log.warn({ address, reason: messageOf(err) }, 'waiting for Temporal');
      await sleep(250);
    }
  }
}

/** Classes of failed calls to Temporal. `limit`: a limit of the namespace is reached. */
export const temporalErrorClasses = ['away', 'limit', 'other'] as const;
type TemporalErrorClass = (typeof temporalErrorClasses)[number];

export const observedCalls = ['start', 'signal', 'signal_with_start', 'terminate', 'describe'] as const;
type ObservedCall = (typeof observedCalls)[number];

/** Gets the kind and the duration of every call about a workflow, and the class of its failure. */
export type CallObserver = (call: ObservedCall, milliseconds: number, error?: TemporalErrorClass) => void;

/** A server that is frozen accepts connections and answers nothing: without a deadline a call would wait until the server goes on. */
const answerWithinMs = 10_000;

/** Bounds and times the calls of a client. "Not found" and "already started" are answers, not failures. */
function observeCalls(
  connection: Connection | NativeConnection,
  observe: CallObserver,
): WorkflowClientInterceptor {
  const timed =
    (call: ObservedCall) =>
    async <Input, Answer>(input: Input, next: (input: Input) => Promise<Answer>): Promise<Answer> => {
      const calledAt = performance.now();
      try {
        const answer = await connection.withDeadline(Date.now() + answerWithinMs, () => next(input));
        observe(call, performance.now() - calledAt);
        return answer;
      } catch (err) {
        observe(call, performance.now() - calledAt, classify(err));
        throw err;
      }
    };
  return {
    startWithDetails: timed('start'),
    signal: timed('signal'),
    signalWithStart: timed('signal_with_start'),
    terminate: timed('terminate'),
    describe: timed('describe'),
  };
}

function classify(err: unknown): TemporalErrorClass | undefined {
  if (err instanceof WorkflowNotFoundError || err instanceof WorkflowExecutionAlreadyStartedError)
    return undefined;
  if (isOverLimit(err)) return 'limit';
  return isTemporalUnavailable(err) ? 'away' : 'other';
}

/** gRPC codes after which a call may be repeated: cancelled, unknown, deadline, exhausted, aborted, internal, unavailable. */
const unavailableCodes = new Set([1, 2, 4, 8, 10, 13, 14]);

const resourceExhausted = 8;

/** Returns whether a call failed because Temporal is unavailable or busy. */
export function isTemporalUnavailable(err: unknown): boolean {
  // A worker's connection fails with this error, which has no code: a closed port fails immediately.
  if (err instanceof Error && err.name === 'TransportError') return true;
  const code = grpcCodeOf(err);
  return code !== undefined && unavailableCodes.has(code);
}

/** Returns whether Temporal refused a call because a limit on calls or actions is reached. */
export function isOverLimit(err: unknown): boolean {
  return grpcCodeOf(err) === resourceExhausted;
}

/** Returns the gRPC code of an error or of its cause. */
export function grpcCodeOf(err: unknown): number | undefined {
  for (let e = err; e instanceof Error; e = e.cause) {
    const { code } = e as Error & { code?: unknown };
    if (typeof code === 'number') return code;
  }
  return undefined;
}
