import { badParameter } from '../apiError.js';
import type { ApiState } from '../composeSteps.js';
import { type Parameter, type Parameters, parseParameters, rawUrlHint, shown } from './parameters.js';

interface Asked {
  querystring: string;
  state: ApiState;
}

/** Returns the parameters of the request's query, parsed once. @throws ApiError 400 */
export function parametersOf(ctx: Asked): Parameters {
  ctx.state.parameters ??= parseParameters(ctx.querystring);
  return ctx.state.parameters;
}

/** Returns a required parameter. @throws ApiError 400 if it is missing or empty */
export function required(ctx: Asked, name: string): Parameter {
  const given = parametersOf(ctx).get(name);
  if (given === undefined) throw badParameter(`The parameter ${name} is missing`);
  if (given.value === '') throw badParameter(`The parameter ${name} is empty`);
  return given;
}

/** @throws ApiError 400 naming the first unknown one */
export function refuseUnknownParameters(ctx: Asked, known: readonly string[]): void {
  for (const name of parametersOf(ctx).keys()) {
    if (!known.includes(name)) {
      throw badParameter(`The parameter ${shown(name)} is not known${rawUrlHint(ctx.querystring)}`);
    }
  }
}

/** Returns the parameters by name; client_token is always among the known ones. @throws ApiError 400 */
export function readQuery(ctx: Asked, known: readonly string[]): Record<string, string | undefined> {
  refuseUnknownParameters(ctx, ['client_token', ...known]);
  const found: Record<string, string | undefined> = {};
  for (const name of known) {
    if (parametersOf(ctx).has(name)) found[name] = required(ctx, name).value;
  }
  return found;
}

/** Longer than any time with its zone; Date.parse also takes text in parentheses, however long. */
const timeAtMost = 40;

/** Reads a time in ISO 8601, to ms. @throws ApiError 400 */
export function readTime(name: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  const isTime = value.length <= timeAtMost && /^\d{4}-\d\d-\d\d/.test(value);
  const ms = isTime ? Date.parse(value) : Number.NaN;
  if (!Number.isNaN(ms)) return ms;
  // In a query a + means a space: 12:00:00+01:00 arrives as 12:00:00 01:00.
  const hint = value.includes(' ') ? '; in a query the + of a time zone is written %2B' : '';
  throw badParameter(`${name} must be a time such as 2026-01-31T12:00:00Z${hint}`);
}
