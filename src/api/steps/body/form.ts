import { badParameter } from '../../apiError.js';
import { parametersAtMost, shown, tooManyParameters } from '../parameters.js';

/** The fields of a form by name, trimmed, each given once. */
export type Form = ReadonlyMap<string, string>;

/** Collects fields; none may be given twice, not even an ignored one (RFC 6749, section 3.2). @throws ApiError 400 */
export function formOf(fields: Iterable<readonly [name: string, value: string]>): Form {
  const form = new Map<string, string>();
  for (const [name, value] of fields) {
    if (form.has(name)) throw badParameter(`The parameter ${shown(name)} is repeated`);
    if (form.size === parametersAtMost) throw tooManyParameters();
    form.set(name, value.trim());
  }
  return form;
}
