import type { z } from 'zod';
import { converted, type Schema } from './schemas.js';

/** Returns the example of a schema, else one made of the examples of its required members. */
export function makeExample(schema: z.ZodType): unknown {
  const root = converted(schema);
  const components = (root.$defs ?? {}) as Record<string, Schema>;
  const of = (json: Schema): unknown => {
    if (typeof json.$ref === 'string') return of(components[json.$ref.split('/').at(-1) ?? ''] ?? {});
    if ('const' in json) return json.const;
    const [found] = ((json.examples ?? json.enum ?? []) as unknown[]).slice(0, 1);
    if (found !== undefined) return found;
    const [choice] = (json.anyOf ?? json.oneOf ?? []) as Schema[];
    if (choice) return of(choice);
    if (json.type === 'array') return [of(json.items as Schema)];
    const properties = (json.properties ?? {}) as Record<string, Schema>;
    const required = (json.required ?? []) as string[];
    return Object.fromEntries(required.map((name) => [name, of(properties[name] ?? {})]));
  };
  return of(root);
}
