import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { openapi } from '../../../src/api/reference/openapi.js';
import { collection, collectionFile } from './collection.js';

interface Item {
  name: string;
  item?: Item[];
  request?: { method: string; url: { path: string[] } };
}

describe('docs/reference/postman-collection.json', () => {
  it('is what `npx tsx test/api/reference/collection.ts` writes now', () => {
    assert.equal(readFileSync(collectionFile, 'utf8'), collection());
  });

  it('has every call of the description', () => {
    const all = (items: Item[]): Item[] => items.flatMap((one) => [one, ...all(one.item ?? [])]);
    const { item } = JSON.parse(collection()) as { item: Item[] };
    const calls = all(item).flatMap(({ request }) =>
      request ? [`${request.method} /${request.url.path.join('/').replaceAll(/:(\w+)/g, '{$1}')}`] : [],
    );
    const described = Object.entries(openapi.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    assert.deepEqual([...new Set(calls)].sort(), described.sort());
  });
});
