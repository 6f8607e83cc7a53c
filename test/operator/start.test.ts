/** A package costs each command that loads it up to 0.3 s of CPU before its first word. */
import assert from 'node:assert/strict';
import { packagesLoadedWith } from '../imports.mjs';

describe('operator: start', () => {
  it("loads neither Temporal's client nor the HTTP service: a command imports them when it connects", () => {
    const late =
      /^(@temporalio\/(?!envconfig$)|@grpc\/|protobufjs|koa|undici$|prom-client$|@opentelemetry\/)/;
    const loaded = packagesLoadedWith('src/operator/main.ts');
    assert.deepEqual(
      loaded.filter((name) => late.test(name)),
      [],
    );
  });
});
