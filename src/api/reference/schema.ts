/** zod schemas of what callers send and get, each with an example, and their JSON Schemas (draft 2020-12, as in OpenAPI 3.1). */
import { z } from 'zod';

export type Schema = Record<string, unknown>;

export const text = (example: string, description?: string) => z.string().meta(told([example], description));

export const whole = (example: number, description?: string) =>
  z.number().meta({ type: 'integer', ...told([example], description) });

export const flag = (example: boolean, description?: string) =>
  z.boolean().meta(told([example], description));

export const time = (description?: string) =>
  z.string().meta({ format: 'date-time', ...told(['2026-01-31T12:00:00.000Z'], description) });

/** Longer than any time with its zone; Date.parse also takes text in parentheses, however long. */
const timeAtMost = 40;

/** A time in ISO 8601 that a caller sends, read to ms. */
export const givenTime = (description: string) =>
  time(description).transform((given, { addIssue }) => {
    const isTime = given.length <= timeAtMost && /^\d{4}-\d\d-\d\d/.test(given);
    const ms = isTime ? Date.parse(given) : Number.NaN;
    if (!Number.isNaN(ms)) return ms;
    // In a query a + means a space: 12:00:00+01:00 arrives as 12:00:00 01:00.
    const hint = given.includes(' ') ? '; in a query the + of a time zone is written %2B' : '';
    addIssue(`must be a time such as 2026-01-31T12:00:00Z${hint}`);
    return z.NEVER;
  });

/** Describes a text by the pattern with which the code checks it. */
export const matching = (pattern: RegExp, example: string, description?: string) =>
  z
    .string()
    .regex(pattern)
    .meta(told([example], description));

const told = (examples: unknown[], description: string | undefined) => ({
  examples,
  ...(description !== undefined && { description }),
});

/** Returns the JSON Schema of a schema's input; a schema with an `id` is a reference to components/schemas. */
export function jsonSchemaOf(schema: z.ZodType): Schema {
  const { $schema, $defs, ...json } = converted(schema);
  return json;
}

/** Returns the JSON Schema of a schema with an `id`, by this id. */
export function componentOf(schema: z.ZodType): Record<string, Schema> {
  const { id = '' } = schema.meta() ?? {};
  return { [id]: (converted(schema).$defs as Record<string, Schema>)[id] ?? {} };
}

function converted(schema: z.ZodType): Schema {
  const json = JSON.stringify(z.toJSONSchema(schema, { io: 'input' }));
  return JSON.parse(json.replaceAll('"#/$defs/', '"#/components/schemas/')) as Schema;
}

/** Returns the example of a schema, else one made of the examples of its required members. */
export function exampleOf(schema: z.ZodType): unknown {
  const root = converted(schema);
  const components = (root.$defs ?? {}) as Record<string, Schema>;
  const of = (json: Schema): unknown => {
    if (typeof json.$ref === 'string') return of(components[json.$ref.split('/').at(-1) ?? ''] ?? {});
    if ('const' in json) return json.const;
    const [found] = ((json.examples ?? json.enum ?? []) as unknown[]).slice(0, 1);
    if (found !== undefined) return found;
    const [choice] = (json.anyOf ?? []) as Schema[];
    if (choice) return of(choice);
    if (json.type === 'array') return [of(json.items as Schema)];
    const properties = (json.properties ?? {}) as Record<string, Schema>;
    const required = (json.required ?? []) as string[];
    return Object.fromEntries(required.map((name) => [name, of(properties[name] ?? {})]));
  };
  return of(root);
}
