import type { Middleware } from 'koa';

/** What every request carries. */
export interface ApiState {
  requestId: string;
}

/** One step of an endpoint. It adds to the state what its name says, and the steps after it rely on that. */
export type Step<State = unknown> = Middleware<ApiState & State>;

/** An endpoint is its steps in the order in which they are taken. */
export function endpoint<State>(...steps: Step<State>[]): Middleware[] {
  return steps as unknown as Middleware[];
}
