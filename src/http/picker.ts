import { z } from 'zod';

type Picker = (value: unknown) => unknown;

const asItIs: Picker = (value) => value;

/**
 * Returns a function that leaves of a value what its schema names, in the value's own order: an answer shows nothing that its door does
 * not declare. Of a union the members of every choice.
 */
export function pickerOf(schema: z.core.$ZodType): Picker {
  if (schema instanceof z.ZodObject) {
    const members = new Map(
      Object.entries<z.core.$ZodType>(schema.shape).map(([name, member]) => [name, pickerOf(member)]),
    );
    return (value) => {
      if (typeof value !== 'object' || value === null) return value;
      const picked: Record<string, unknown> = {};
      for (const [name, one] of Object.entries(value)) {
        const pick = members.get(name);
        if (pick !== undefined) picked[name] = pick(one);
      }
      return picked;
    };
  }
  if (schema instanceof z.ZodArray) {
    const pick = pickerOf(schema.element);
    return pick === asItIs
      ? asItIs
      : (value) => (Array.isArray(value) ? value.map((one) => pick(one)) : value);
  }
  if (schema instanceof z.ZodUnion) {
    const picks = schema.options.map(pickerOf);
    if (picks.every((pick) => pick === asItIs)) return asItIs;
    return (value) =>
      typeof value === 'object' && value !== null
        ? Object.assign({}, ...picks.map((pick) => pick(value)))
        : value;
  }
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable) return pickerOf(schema.unwrap());
  const isPlain = plain.some((kind) => schema instanceof kind);
  if (!isPlain) throw new Error(`no answer is picked by ${schema._zod.def.type}`);
  return asItIs;
}

/** Values without members, and those whose members a schema leaves open. */
const plain = [z.ZodString, z.ZodNumber, z.ZodBoolean, z.ZodEnum, z.ZodLiteral, z.ZodUnknown, z.ZodRecord];
