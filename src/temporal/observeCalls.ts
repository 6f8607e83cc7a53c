import { type WorkflowClientInterceptor, WorkflowNotFoundError } from '@temporalio/client';
import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import { isOverLimit, isTemporalUnavailable } from './unavailable.js';

/** Why a call to Temporal failed. `limit`: a limit of the namespace is reached. */
export const temporalErrorClasses = ['away', 'limit', 'other'] as const;
export type TemporalErrorClass = (typeof temporalErrorClasses)[number];

export const observedCalls = ['start', 'signal', 'signal_with_start', 'terminate', 'describe'] as const;
export type ObservedCall = (typeof observedCalls)[number];

/** Called for every call about a workflow: its kind, its duration, ms, and the reason if it failed. */
export type CallObserver = (call: ObservedCall, milliseconds: number, error?: TemporalErrorClass) => void;

/** Times the calls of a client. "Not found" and "already started" are answers, not failures. */
export function observeCalls(observe: CallObserver): WorkflowClientInterceptor {
  const timed =
    (call: ObservedCall) =>
    async <Input, Answer>(input: Input, next: (input: Input) => Promise<Answer>): Promise<Answer> => {
      const calledAt = performance.now();
      try {
        const answer = await next(input);
        observe(call, performance.now() - calledAt);
        return answer;
      } catch (err) {
        observe(call, performance.now() - calledAt, classOf(err));
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

function classOf(err: unknown): TemporalErrorClass | undefined {
  if (err instanceof WorkflowNotFoundError || err instanceof WorkflowExecutionAlreadyStartedError)
    return undefined;
  if (isOverLimit(err)) return 'limit';
  return isTemporalUnavailable(err) ? 'away' : 'other';
}
