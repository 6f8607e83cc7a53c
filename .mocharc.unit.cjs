/** `npm run test:unit`: the tests that need no server, none of them started. */
module.exports = {
  'node-option': ['import=tsx'],
  require: ['test/fastCheck.ts'],
  spec: require('./test/unitTests.mjs').unitTests,
  reporter: 'test/reporter.cjs',
  timeout: 10_000,
};
