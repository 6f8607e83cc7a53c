// Loaded by `node --require`: says at the end which packages of OpenTelemetry were loaded.
const { _cache } = require('node:module');

process.on('exit', () => {
  const loaded = Object.keys(_cache).flatMap((file) => /@opentelemetry\/([^/]+)/.exec(file)?.[1] ?? []);
  console.error(`opentelemetry loaded: ${[...new Set(loaded)].sort().join(' ')};`);
});
