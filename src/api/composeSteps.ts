import type { DefaultContext, Middleware, Next, ParameterizedContext } from 'koa';
import compose from 'koa-compose';
import type { Parameters } from './steps/parameters.js';

/** The state of every request. */
export interface ApiState {
  requestId: string;
  /** The parameters of the query, once a step has asked for them. */
  parameters?: Parameters;
}

/** Koa's context of a request and its answer, with the state so far and the parameters of the path. */
export type StepContext<State> = ParameterizedContext<
  ApiState & State,
  { params: Readonly<Record<string, string | undefined>>; _matchedRoute?: string | RegExp }
>;

/**
 * Does one thing for a request. Its type says what it reads from the state and adds to it: a step that needs less
 * state fits every endpoint that has more.
 */
export type Step<State = unknown> = (ctx: StepContext<State>, next: Next) => unknown;

/**
 * Composes an endpoint from its steps, in this order. For the router they are one middleware; otherwise it would
 * compose them for each request.
 */
export function composeSteps<State>(...steps: Step<State>[]): Middleware[] {
  const run = compose(steps);
  return [(ctx, next) => run(ctx as DefaultContext & StepContext<State>, next)];
}
