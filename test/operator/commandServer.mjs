/**
 * Runs commands of the command line one after another, for {@link Cli.run}: most of a command's time is spent on
 * loading its modules. Its argument names the module with `execute`; it ends with the process that started it.
 */
const { execute } = await import(process.argv[2]);

process.on('message', async ({ args, env }) => {
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, env);
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr']) {
    process[name].write = (text) => {
      output[name] += text;
      return true;
    };
  }
  const status = await execute(args);
  // What fails later is shown by the test run.
  for (const name of ['stdout', 'stderr']) delete process[name].write;
  process.send({ status, ...output });
});
process.on('disconnect', () => process.exit());
