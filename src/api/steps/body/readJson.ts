import { isUtf8 } from 'node:buffer';
import type { z } from 'zod';
import { checkInput } from '../../../checkInput.js';
import { badParameter, unreadableBody } from '../../apiError.js';
import type { Step } from '../../composeSteps.js';

/**
 * Parses state.body as state.json; undefined if there is no body. RFC 8259, section 8.1: only UTF-8. Invalid bytes
 * would otherwise all become the same replacement character, and different names would become equal.
 */
export const readJson: Step<{ body: Buffer; json: unknown }> = async (ctx, next) => {
  const { body } = ctx.state;
  if (!isUtf8(body)) throw unreadableBody();
  try {
    ctx.state.json = body.length === 0 ? undefined : JSON.parse(body.toString());
  } catch {
    throw unreadableBody();
  }
  await next();
};

/** Returns a JSON body that fits its schema; an absent one counts as `{}`. @throws ApiError 400 naming the first problem */
export function checkedBody<T>(schema: z.ZodType<T>, json: unknown): T {
  const checked = checkInput(schema, json ?? {});
  if ('problem' in checked) throw badParameter(checked.problem);
  return checked.data;
}
