import type { Middleware } from 'koa';
import type { Parameters } from './steps/parameters.js';

/** What every request carries. */
export interface ApiState {
  requestId: string;
  /** Those of the query, once a step has asked for them. */
  parameters?: Parameters;
}

/** One step of an endpoint. It adds to the state what its name says, and the steps after it rely on that. */
export type Step<State = unknown> = Middleware<ApiState & State>;

/**
 * An endpoint is its steps in the order in which they are taken. They are one middleware to the router, which would
 * put them together anew for each request.
 */
export function endpoint<State>(...steps: Step<State>[]): Middleware[] {
  const all = steps as unknown as Middleware[];
  return [
    (ctx, next) => {
      const take = (i: number): Promise<unknown> => {
        const step = all[i];
        return step === undefined ? next() : step(ctx, () => take(i + 1));
      };
      return take(0);
    },
  ];
}
