import type { DefaultContext, Middleware, Next, ParameterizedContext } from 'koa';
import compose from 'koa-compose';
import type { Parameters } from './steps/parameters.js';

/** What every request carries. */
export interface ApiState {
  requestId: string;
  /** The parameters of the query, once a step has asked for them. */
  parameters?: Parameters;
}

/** A request and its answer: Koa's, with the state so far and the parameters of the path. */
export type StepContext<State> = ParameterizedContext<
  ApiState & State,
  { params: Readonly<Record<string, string | undefined>>; _matchedRoute?: string | RegExp }
>;

/**
 * Does one thing for a request. It reads and adds to the state what its type says: a step that asks for less of the
 * state fits every endpoint whose state has more.
 */
export type Step<State = unknown> = (ctx: StepContext<State>, next: Next) => unknown;

/**
 * Composes an endpoint of its steps, taken in this order. They are one middleware to the router, which would otherwise
 * compose them anew for each request.
 */
export function endpoint<State>(...steps: Step<State>[]): Middleware[] {
  const run = compose(steps);
  return [(ctx, next) => run(ctx as DefaultContext & StepContext<State>, next)];
}
