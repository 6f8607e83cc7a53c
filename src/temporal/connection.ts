import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection, WorkflowNotFoundError } from '@temporalio/client';
import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import type { NativeConnection } from '@temporalio/worker';
import { type Config, ConfigError } from '../config.js';
import type { Logger } from '../log.js';
import { except } from '../promises.js';
import { disableWhenUnused } from './contexts.js';
import { explainTemporal, grpcCodeOf, reasonOf, type TemporalReason, withoutRetries } from './refusal.js';

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
    interceptors: withoutRetries(),
  });
}

export function createTemporalClient(
  connection: Connection | NativeConnection,
  config: Config,
  observe: CallObserver = () => {},
  withinMs = answerWithinMs,
): Client {
  disableWhenUnused(connection.callContextStorage);
  const interceptors = { workflow: [observeCalls(connection, observe, withinMs)] };
  return new Client({ connection, namespace: config.TEMPORAL_NAMESPACE, interceptors });
}

/**
 * Asks about the client's namespace, and about a workflow that does not exist: a server may refuse the namespace, or answer from its
 * memory while its store is away or full. @throws if Temporal does not serve both in time
 */
export function askNamespace({ connection, workflowService, options }: Client, withinMs: number) {
  const { namespace } = options;
  return connection.withDeadline(Date.now() + withinMs, async () => {
    await workflowService.describeNamespace({ namespace });
    const asked = { namespace, execution: { workflowId: 'none' } };
    // The namespace has no such workflow.
    const isAnswer = (err: unknown) => grpcCodeOf(err) === 5;
    await workflowService.describeWorkflowExecution(asked).catch(except(isAnswer));
  });
}

/** Stands for a connection that is replaced by another while its clients are in use: it is closed once their last calls have ended. */
export function replaceable(first: Connection | NativeConnection, withinMs = answerWithinMs) {
  let current = first;
  const connection = new Proxy(first, {
    get(_, name) {
      const value: unknown = Reflect.get(current, name, current);
      return typeof value === 'function' ? value.bind(current) : value;
    },
  });
  const replace = (next: Connection | NativeConnection) => {
    const former = current;
    current = next;
    setTimeout(() => former.close().catch(() => undefined), withinMs).unref();
  };
  return { connection, replace };
}

/** What a start that waits for Temporal needs. */
export interface Waiting {
  config: Config;
  log: Logger;
  /** Ends the waiting. */
  ended: AbortSignal;
  /** Called when a call has failed. */
  begun(): void;
}

/**
 * Repeats a call at the start of a process while Temporal is unavailable, not ready or does not accept the caller: its frontend
 * answers some seconds before its history service, and keys are replaced. Logs every 5 s why the process waits, once for a
 * server that is silent: the library gives up such a connection after 30 s.
 * @throws ConfigError for any other answer; other failures of the call; AbortError
 */
export async function untilAvailable<T>({ config, log, ended, begun }: Waiting, call: () => Promise<T>) {
  const say = async (err?: unknown) => {
    begun();
    const { reason, says, todo, lasts } = await explainTemporal(err, config.temporalConnection);
    const told = { address: config.TEMPORAL_ADDRESS, reason, do: todo };
    if (lasts) log.error(told, `waiting for Temporal, which waiting alone does not cure: ${says}`);
    else log.warn(told, `waiting for Temporal: ${says}`);
  };
  for (let tries = 0; ; tries++) {
    const silent = setTimeout(say, sayEveryMs);
    try {
      return await call();
    } catch (err) {
      if (!isWorthRepeating(err)) throw await inWords(err, config);
      if (tries % (sayEveryMs / retryMs) === 0) await say(err);
      await sleep(retryMs, undefined, { signal: ended });
    } finally {
      clearTimeout(silent);
    }
  }
}

/** Returns the error with which a start ends: the text of a server's answer stays with the server. */
export async function inWords(err: unknown, { temporalConnection, TEMPORAL_ADDRESS: address }: Config) {
  if (grpcCodeOf(err) === undefined) return err;
  const { says, todo } = await explainTemporal(err, temporalConnection);
  return new ConfigError(`Temporal at ${address} cannot serve: ${says} ${todo}`);
}

const retryMs = 250;
const sayEveryMs = 5000;

/** Classes of failed calls to Temporal: reasons of refusal.ts. */
export const temporalErrorClasses = [
  'away',
  'limit',
  'credentials',
  'right',
  'namespace',
  'invalid',
  'other',
] as const satisfies TemporalReason[];
type TemporalErrorClass = (typeof temporalErrorClasses)[number];

export const observedCalls = ['start', 'signal_with_start'] as const;
type ObservedCall = (typeof observedCalls)[number];

/** Gets the kind and the duration of every call about a workflow, and the class of its failure. */
export type CallObserver = (call: ObservedCall, milliseconds: number, error?: TemporalErrorClass) => void;

/** A server that is frozen accepts connections and answers nothing: without a deadline a call would wait until the server goes on. */
const answerWithinMs = 10_000;

/** Bounds and times the calls of a client. "Not found" and "already started" are answers, not failures. */
function observeCalls(connection: Connection | NativeConnection, observe: CallObserver, withinMs: number) {
  const timed =
    (call: ObservedCall) =>
    async <Input, Answer>(input: Input, next: (input: Input) => Promise<Answer>): Promise<Answer> => {
      const calledAt = performance.now();
      try {
        const answer = await connection.withDeadline(Date.now() + withinMs, () => next(input));
        observe(call, performance.now() - calledAt);
        return answer;
      } catch (err) {
        observe(call, performance.now() - calledAt, classify(err));
        throw err;
      }
    };
  return {
    startWithDetails: timed('start'),
    signalWithStart: timed('signal_with_start'),
  };
}

function classify(err: unknown): TemporalErrorClass | undefined {
  if (err instanceof WorkflowNotFoundError || err instanceof WorkflowExecutionAlreadyStartedError)
    return undefined;
  const reason = reasonOf(err);
  return (
    temporalErrorClasses.find((one) => one === reason) ?? (isTemporalUnavailable(err) ? 'away' : 'other')
  );
}

/** gRPC codes after which a call may be repeated: cancelled, unknown, deadline, exhausted, not ready, aborted, internal, unavailable. */
const unavailableCodes = new Set([1, 2, 4, 8, 9, 10, 13, 14]);

/** Returns whether a call failed because Temporal is unavailable or busy. */
export function isTemporalUnavailable(err: unknown): boolean {
  // A worker's connection fails with this error, which has no code: a closed port fails immediately.
  if (err instanceof Error && err.name === 'TransportError') return true;
  const code = grpcCodeOf(err);
  return code !== undefined && unavailableCodes.has(code);
}

/** Returns whether the same call may succeed later: Temporal is unavailable, or does not accept the caller. */
export const isWorthRepeating = (err: unknown): boolean =>
  isTemporalUnavailable(err) || ![undefined, 'invalid', 'other'].includes(reasonOf(err));
