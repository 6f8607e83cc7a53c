import assert from 'node:assert/strict';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { Schema } from '../../../src/http/schemas.js';

/**
 * Fails where generators of clients stumble over a description of calls. Of what it looks for, openapi-generator 7.26 makes code that
 * does not compile in Go, Java or TypeScript, or that fails in Python; so does openapi-python-client 0.29 (its issue 1451). For Go, ogen 1.25
 * leaves out calls with an `anyOf` of objects, and oapi-codegen 2.8 sends nothing of a body that is a union without a name.
 * openapi-generator 7.14 for Java reads an answer as each choice of a union, and fails where two fit.
 */
export function assertGeneratable(description: object): void {
  const ajv = new Ajv2020({ strict: false, validateSchema: false, formats: { 'date-time': true } });
  ajv.addSchema(description, 'description');
  /** By their text: many answers have the same. */
  const compiled = new Map<string, ReturnType<typeof ajv.compile>>();
  const look = (value: unknown, place: string): void => {
    if (typeof value !== 'object' || value === null) return;
    const {
      anyOf = [],
      oneOf = [],
      pattern,
      const: only,
      schema,
      examples,
      example,
      properties,
      additionalProperties,
    } = value as Schema & { anyOf?: Schema[]; oneOf?: Schema[] };
    // Later versions add members to what a program reads.
    if (properties && /\/(responses|webhooks)\//.test(place)) assert.equal(additionalProperties, true, place);
    for (const choice of [...anyOf, ...oneOf])
      assert.ok(
        Object.keys(choice).some((key) => /^(type|\$ref|allOf)$/.test(key)),
        `${place}: no type`,
      );
    if (!anyOf.some(({ type }) => type === 'null'))
      assert.ok(!anyOf.some((choice) => '$ref' in choice || choice.type === 'object'), `${place}: use oneOf`);
    if (/\/requestBody\/.*\/schema$/.test(place)) assert.equal(oneOf.length, 0, `${place}: give it a name`);
    if (/\/responses\/2/.test(place)) assert.equal(oneOf.length, 0, `${place}: no union`);
    if (/\/requestBody\/content$/.test(place)) assert.equal(Object.keys(value).length, 1, place);
    assert.notEqual(typeof only, 'boolean', `${place}: no generator has a type for one boolean`);
    if (typeof pattern === 'string') assert.doesNotMatch(pattern, /\\[pP]/, place);
    if (typeof schema === 'object') {
      const text = JSON.stringify(schema);
      const fits = compiled.get(text) ?? ajv.compile({ $ref: `description#${place}/schema` });
      compiled.set(text, fits);
      const shown = Object.values((examples ?? {}) as Record<string, { value: unknown }>);
      for (const one of example === undefined ? shown.map((of) => of.value) : [example])
        assert.ok(
          fits(one),
          `${place}: ${JSON.stringify(one)} is no example: ${ajv.errorsText(fits.errors)}`,
        );
    }
    for (const [name, inner] of Object.entries(value))
      look(inner, `${place}/${encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'))}`);
  };
  look(description, '');
  const { tags, paths, webhooks = {} } = description as Described;
  const tagsOf = (calls: Described['paths']) =>
    new Set(Object.values(calls).flatMap((methods) => Object.values(methods).flatMap((one) => one.tags)));
  const used = [...tagsOf(paths), ...tagsOf(webhooks)];
  // One file is made from each tag, and that of a webhook would take the place of that of the calls.
  assert.deepEqual(used.toSorted(), tags.map(({ name }) => name).toSorted());
}

interface Described {
  tags: { name: string }[];
  paths: Record<string, Record<string, { tags: string[] }>>;
  webhooks?: Described['paths'];
}
