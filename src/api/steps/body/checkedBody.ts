import type { z } from 'zod';
import { checkInput } from '../../../checkInput.js';
import { badParameter } from '../../apiError.js';

/** Returns a JSON body that fits its schema; an absent one counts as `{}`. @throws ApiError 400 naming the first problem */
export function checkedBody<T>(schema: z.ZodType<T>, json: unknown): T {
  const checked = checkInput(schema, json ?? {});
  if ('problem' in checked) throw badParameter(checked.problem);
  return checked.data;
}
