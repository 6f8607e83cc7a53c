/** Makes JSON Schemas (draft 2020-12, that of OpenAPI 3.1), each with an example. */
import { z } from 'zod';

export type Schema = Record<string, unknown>;

export interface ObjectSchema extends Schema {
  properties: Record<string, Schema>;
}

export const text = (example: string, more: Schema = {}): Schema => ({
  type: 'string',
  examples: [example],
  ...more,
});
export const whole = (example: number, more: Schema = {}): Schema => ({
  type: 'integer',
  examples: [example],
  ...more,
});
export const flag = (example: boolean, more: Schema = {}): Schema => ({
  type: 'boolean',
  examples: [example],
  ...more,
});
export const time = (description = ''): Schema => ({
  type: 'string',
  format: 'date-time',
  examples: ['2026-01-31T12:00:00.000Z'],
  ...(description !== '' && { description }),
});
export const orNull = (schema: Schema): Schema => ({ ...schema, type: [schema.type, 'null'] });
export const oneOf = (...values: readonly string[]): Schema => ({
  type: 'string',
  enum: values,
  examples: values.slice(0, 1),
});
export const listOf = (items: Schema): Schema => ({ type: 'array', items });
export const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });

/** Describes an object whose members are all required, except the optional ones. */
export const object = (properties: Record<string, Schema>, ...optional: string[]): ObjectSchema => ({
  type: 'object',
  properties,
  required: Object.keys(properties).filter((name) => !optional.includes(name)),
});

/** Returns the JSON Schema of a zod schema's input, so that the validation of requests also describes them. */
export function schemaOf(checked: z.ZodType): Schema {
  const { $schema, ...schema } = z.toJSONSchema(checked, { io: 'input' });
  return schema;
}

/** Describes a text by the pattern with which the code checks it. */
export const matching = (pattern: RegExp, example: string, more: Schema = {}): Schema =>
  text(example, { pattern: pattern.source, ...more });
