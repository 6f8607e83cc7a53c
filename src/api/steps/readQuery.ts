import type { z } from 'zod';
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

/** Refuses parameters that the call's declaration does not have. @throws ApiError 400 naming the first unknown one */
export function refuseUnknownParameters(ctx: Asked, known: readonly string[]): void {
  for (const name of parametersOf(ctx).keys()) {
    if (!known.includes(name)) {
      // RFC 6750, section 2: never more than one way in one request.
      if (name === 'access_token') throw badParameter(headerOnly);
      throw badParameter(`The parameter ${shown(name)} is not known${rawUrlHint(ctx.querystring)}`);
    }
  }
}

const headerOnly = 'The access_token must be given as a header only: send Authorization: Bearer <token>';

/** Returns the parameters that the schema has. @throws ApiError 400 */
export function readQuery<Shape extends z.ZodRawShape>(
  ctx: Asked,
  schema: z.ZodObject<Shape>,
): z.output<z.ZodObject<Shape>> {
  const given = Object.keys(schema.shape).filter((name) => parametersOf(ctx).has(name));
  return checkedQuery(schema, Object.fromEntries(given.map((name) => [name, required(ctx, name).value])));
}

/** @param given the parameters, by name @throws ApiError 400 naming the first problem */
export function checkedQuery<T>(schema: z.ZodType<T>, given: Record<string, string | undefined>): T {
  const checked = schema.safeParse(given);
  if (checked.success) return checked.data;
  const [issue] = checked.error.issues;
  throw badParameter(`${issue?.path.join('.')} ${issue?.message}`);
}
