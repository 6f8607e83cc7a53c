import type { ApiState } from '../composeSteps.js';
import { parametersOf } from '../steps/readQuery.js';

/** Returns a parameter of the query; undefined if it is absent or left empty in a form. @throws ApiError 400 */
export function given(ctx: { querystring: string; state: ApiState }, name: string): string | undefined {
  return parametersOf(ctx).get(name)?.value.trim() || undefined;
}
