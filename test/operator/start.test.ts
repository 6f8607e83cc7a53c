/** A package costs each command that loads it up to 0.3 s of CPU before its first word. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { packagesLoadedWith } from '../imports.mjs';

const running = [
  'src/operator/session.ts',
  'src/operator/reason.ts',
  ...readdirSync(join(import.meta.dirname, '../../src/operator/actions'), {
    recursive: true,
    encoding: 'utf8',
  })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join('src/operator/actions', name)),
];

describe('operator: start', () => {
  it('loads only the parser of the command line for help and for wrong usage', () => {
    assert.deepEqual(packagesLoadedWith('src/operator/main.ts'), ['commander']);
  });

  it("loads neither Temporal's client nor the HTTP service with a command: it imports them when it connects", () => {
    const late =
      /^(@temporalio\/(?!envconfig$)|@grpc\/|protobufjs|koa|undici$|prom-client$|@opentelemetry\/)/;
    assert.deepEqual(
      running.flatMap((file) =>
        packagesLoadedWith(file)
          .filter((name) => late.test(name))
          .map((name) => `${file}: ${name}`),
      ),
      [],
    );
  });
});
