import type { Context } from 'koa';
import { badParameter } from './apiError.js';

/** The query's parameters, each at most once; client_token is always among the known ones. @throws ApiError 400 */
export function readQuery(
  ctx: Pick<Context, 'query'>,
  known: readonly string[],
): Record<string, string | undefined> {
  const found: Record<string, string | undefined> = {};
  for (const [name, value] of Object.entries(ctx.query)) {
    if (name !== 'client_token' && !known.includes(name)) {
      throw badParameter(`The parameter ${name.slice(0, 64).replaceAll(/[^\w.-]/g, '?')} is not known`);
    }
    if (typeof value !== 'string') throw badParameter(`The parameter ${name} is repeated`);
    if (value === '') throw badParameter(`The parameter ${name} is empty`);
    found[name] = value;
  }
  return found;
}

/** ISO 8601, to ms. @throws ApiError 400 */
export function readTime(name: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  const ms = /^\d{4}-\d\d-\d\d/.test(value) ? Date.parse(value) : Number.NaN;
  if (Number.isNaN(ms)) throw badParameter(`${name} must be a time such as 2026-01-31T12:00:00Z`);
  return ms;
}
