/**
 * The entry of the npm scripts. It needs only Node, brings `node_modules` and `dist` up to date, then runs the task named
 * by its first argument. Progress goes to stderr, to keep it out of a command's output.
 */
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const projectDir = join(dirname(fileURLToPath(import.meta.url)), '..');
const [task, ...args] = process.argv.slice(2);
const builtStamp = join(projectDir, 'dist', '.built');
const builtFolders = ['src', 'local', 'workflows', 'activities', 'clients/node/src'];
const faults = 'test/faults/**/*.test.ts';
const fuzz = 'test/fuzz/**/*.test.ts';
/** Needs a Docker engine. */
const compose = 'test/stack/compose.test.ts';
/**
 * Slow files that need a browser, other languages, a cluster or programs of operators, or start processes of the service again and again,
 * the longest first: mocha begins them in this order. It expands braces only beside a star.
 */
const slow = [
  'test/temporal/verdicts.test.ts',
  'test/temporal/starts.test.ts',
  'test/starts.test.ts',
  'test/local/start.test.ts',
  'test/operator/status.test.ts',
  'test/deploy/alerts.test.ts',
  'test/{clients,examples}/*.test.ts',
  'test/{console,desk}/browser*.test.ts',
  'test/temporal/notReady.test.ts',
  'test/operator/installation.test.ts',
  'test/operator/tls.test.ts',
  'test/operator/doctor.test.ts',
  'test/e2e/tracing.test.ts',
  'test/deploy/haproxy.test.ts',
  'test/deploy/madeUp.test.ts',
  'test/deploy/prometheus.test.ts',
  'test/deploy/helm/chart.test.ts',
  'test/deploy/helm/rules.test.ts',
  'test/redis/cluster.test.ts',
  'test/redis/needs.test.ts',
];
/** Of these `npm test` tries a sample (test/families.ts). */
const families = [
  'test/desk/{rights,operations}*.test.ts',
  'test/operator/{usage,recordedFirst}*.test.ts',
  'test/outgoing/excerpts.test.ts',
  'test/outgoing/nameServers.test.ts',
  'test/redis/verdicts.test.ts',
];
/** Most tests wait more than they compute: more files than cores at a time. */
const sideBySide = ['--parallel', '--jobs', '4'];
/** The files of the fault suite that also run on Temporal's production server. */
const stackFaults = ['kill', 'outage', 'deploy'].map((name) => `test/faults/${name}.test.ts`);

checkNode();
switch (task) {
  case 'start':
    prepare();
    await become('dist/local/start.js');
    break;
  case 'dev':
    prepare();
    await become('dist/local/start.js', '--watch');
    break;
  case 'demo':
    prepare();
    await become('dist/local/demo.js');
    break;
  case 'build':
    prepare();
    break;
  case 'operator':
    if (!existsSync(join(projectDir, 'dist/src/operator/main.js'))) prepare();
    // Not built here: a service that runs from `dist` may still read from it.
    else if (read(builtStamp) !== madeOf().wanted) say('dist is not built from these sources: npm run build');
    await become('dist/src/operator/main.js');
    break;
  case 'test':
    prepare();
    await mocha(
      ...testsBySize(),
      ...[faults, fuzz, compose, ...slow].flatMap((files) => ['--ignore', files]),
      ...sideBySide,
    );
    break;
  case 'nightly':
    prepare();
    await nightly(args.includes('--short'));
    break;
  case 'faults':
    prepare();
    await mocha(faults);
    break;
  case 'test:stack':
    prepare();
    process.env.FAULT_STACK = '1';
    await mocha(...stackFaults);
    break;
  case 'test:compose':
    prepare();
    await runModule('mocha/bin/mocha.js', ['--no-config', '--node-option', 'import=tsx', compose, ...args]);
    break;
  case 'fuzz':
    prepare();
    await mocha(fuzz);
    break;
  case 'bench':
    prepare();
    await runModule('tsx/dist/cli.mjs', ['bench/main.ts', ...args]);
    break;
  default:
    fail(`launch.mjs: no task ${task}`);
}

/** Large files, which take long, come first: one that begins last would run alone. */
function testsBySize() {
  const sizes = sourcesUnder(join(projectDir, 'test')).map((file) => [file, statSync(file).size]);
  return sizes
    .filter(([file]) => file.endsWith('.test.ts'))
    .sort(([, a], [, b]) => b - a)
    .map(([file]) => relative(projectDir, file));
}

/** Runs the named files, or the task's own: without any, mocha would take the whole of `test`. */
function mocha(...all) {
  const isNamed = args.some((arg) => arg.endsWith('.ts') || existsSync(join(projectDir, arg)));
  return runModule('mocha/bin/mocha.js', isNamed ? args : [...args, ...all]);
}

/**
 * Runs what `npm test` leaves out, one suite after another. `.ci/run` uses the short form. With TEST_COUNTS each suite leaves
 * its counts there; a suite that crashed leaves an empty file (.ci/sum.mjs).
 */
async function nightly(isShort) {
  const { TEST_COUNTS: folder } = process.env;
  const run = async (name, env, program, programArgs) => {
    console.log(`== ${name}`);
    const counts = folder && join(folder, `${name}.json`);
    if (counts) writeFileSync(counts, '');
    await runModule(program, programArgs, { ...env, ...(counts && { TEST_COUNTS: counts }) });
  };
  const tests = (name, env, ...files) => run(name, env, 'mocha/bin/mocha.js', ['--forbid-only', ...files]);
  if (isShort) {
    const brief = { FUZZ_EXAMPLES: '3', SCREENS: 'phone-dark' };
    const without = ['--ignore', 'test/clients/generated.test.ts'];
    await tests('slow', brief, ...sideBySide, ...without, fuzz, ...slow);
    // Their load takes both cores: beside the others they fail now and then.
    const shortFaults = ['checker/checker', 'kill', 'deploy', 'stopped'].map(
      (name) => `test/faults/${name}.test.ts`,
    );
    const few = { FAULT_KILLS: '3', FAULT_CHECKER_MINUTES: '0.5' };
    await tests('faults', few, '--parallel', '--jobs', '2', ...shortFaults);
    return;
  }
  const all = { FAMILIES: 'whole', BUILD_HELM: '1', INSTALL_FRAMEWORKS: '1', VERDICT_CODES: '14,7,8' };
  await tests('slow', all, ...sideBySide, ...slow);
  await tests('families', all, ...sideBySide, ...families);
  await tests('properties', { MODEL_RUNS: '1000' }, 'test/redis/{model,refusedMidway}*.test.ts');
  await tests('certainty', { CERTAINTY_ASSETS: '400000' }, 'test/api/certainty.test.ts');
  const commands = 'test/operator/{accounts,audit,client,console,notifications,secrets}*.test.ts';
  const clustered = ['test/{api,console,delivery,notices,redis}/**/*.test.ts', commands];
  await tests('cluster', { TEST_REDIS: 'cluster' }, ...clustered);
  await tests('faults', { FAULT_CHECKER_MINUTES: '10' }, faults);
  await tests('fuzz', {}, fuzz);
  await runModule('../.ci/nodes.mjs', []);
}

/** A Node after the last line is taken: none says yet that it does not work. */
function checkNode() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const { engines } = JSON.parse(read(join(projectDir, 'package.json')));
  const lines = engines.node.split('||').map((range) => range.match(/\d+/g).map(Number));
  const isNewer = lines.every(([line]) => major > line);
  if (isNewer || lines.some(([line, least]) => major === line && minor >= least)) return;
  const needed = lines.map(([line, least]) => `${line}.${least}`).join(', ');
  fail(`Node ${needed} or newer of the same number is needed, this is ${process.version}`);
}

function prepare() {
  try {
    const release = lock();
    install();
    build();
    release();
  } catch (err) {
    // An error of the system names the file: a folder of somebody else, a full disk.
    fail(err.syscall ? `This folder cannot be prepared: ${err.message}` : err.stack);
  }
}

/** Runs `npm ci` if `node_modules` does not match package-lock.json. */
function install() {
  const stamp = join(projectDir, 'node_modules', '.installed');
  const wanted = digest([join(projectDir, 'package-lock.json')], `${process.platform} ${process.arch}`);
  if (read(stamp) === wanted) return;
  if (!isInstalledByHand()) {
    say('installing dependencies');
    const npm = process.env.npm_execpath;
    const [command, ...before] = npm?.endsWith('.js') ? [process.execPath, npm] : ['npm'];
    run(command, [
      ...before,
      'ci',
      '--ignore-scripts',
      '--include=dev',
      '--no-audit',
      '--no-fund',
      '--loglevel=error',
    ]);
  }
  writeFileSync(stamp, wanted);
}

/** npm writes this file last. */
function isInstalledByHand() {
  const done = join(projectDir, 'node_modules', '.package-lock.json');
  return (
    existsSync(done) && statSync(done).mtimeMs >= statSync(join(projectDir, 'package-lock.json')).mtimeMs
  );
}

/** Returns what `dist` is made of: a digest of all of it, and the examples among it. */
function madeOf() {
  const folders = builtFolders.map((name) => join(projectDir, name));
  const single = ['package-lock.json', 'tsconfig.json'].map((name) => join(projectDir, name));
  const receivers = sourcesUnder(join(projectDir, 'examples')).filter((file) =>
    /^examples\/\w+\/receiver\.\w+$/i.test(relative(projectDir, file)),
  );
  const all = [...folders.flatMap(sourcesUnder), ...receivers, ...single];
  return { receivers, wanted: digest(all, process.version) };
}

/** Compiles, copies what is read at run time and bundles the workflows, if a source is newer than `dist`. */
function build() {
  const { receivers, wanted } = madeOf();
  if (read(builtStamp) === wanted) return;
  say('building');
  for (const name of ['.built', 'examples', ...builtFolders]) {
    rmSync(join(projectDir, 'dist', name), { recursive: true, force: true });
  }
  // `npm run check` looks at the types, which takes five times as long as writing the files.
  const compile = ['-p', 'tsconfig.json', '--noCheck'];
  run(process.execPath, [join(projectDir, 'node_modules/typescript/bin/tsc'), ...compile]);
  for (const folder of ['src/redis/scripts', 'src/web/assets']) {
    cpSync(join(projectDir, folder), join(projectDir, 'dist', folder), { recursive: true });
  }
  for (const file of receivers) cpSync(file, join(projectDir, 'dist', relative(projectDir, file)));
  const bundle = join(projectDir, 'dist/src/temporal/bundle.js');
  if (existsSync(bundle)) run(process.execPath, [bundle]);
  writeFileSync(builtStamp, wanted);
}

function sourcesUnder(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

function digest(files, salt) {
  const hash = createHash('sha256').update(salt);
  for (const file of files) {
    const content = readFileSync(file);
    hash.update(`\n${relative(projectDir, file)} ${content.length}\n`).update(content);
  }
  return hash.digest('hex');
}

/** Continues as that program, in this process, so that signals need no forwarding. */
async function become(program, ...before) {
  const path = join(projectDir, program);
  process.argv = [process.execPath, path, ...before, ...args];
  // A proxy that the environment names for calls elsewhere leads to no server of this machine.
  const given = process.env.no_proxy ?? process.env.NO_PROXY;
  if (given !== '*') process.env.no_proxy = [given, 'localhost,127.0.0.1,::1'].filter(Boolean).join();
  await import(pathToFileURL(path).href);
}

/** Runs a program of a package to its end. This process then ends with a failure if one of its programs failed. */
async function runModule(program, programArgs, env = {}) {
  const child = spawn(process.execPath, [join(projectDir, 'node_modules', program), ...programArgs], {
    stdio: 'inherit',
    cwd: projectDir,
    env: { ...process.env, ...env },
  });
  const end = (signal) => {
    child.kill(signal);
    child.on('exit', () => process.exit(1));
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, end);
  const [code] = await once(child, 'exit');
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.off(signal, end);
  process.exitCode ||= code ?? 1;
}

function run(command, commandArgs) {
  const { status, error } = spawnSync(command, commandArgs, { cwd: projectDir, stdio: ['ignore', 2, 2] });
  if (status !== 0) fail(`${[command, ...commandArgs].join(' ')} failed${error ? `: ${error.message}` : ''}`);
}

/** Allows one start at a time in this clone: a second start waits and then finds everything done. */
function lock() {
  const file = join(projectDir, '.cache', 'launch.lock');
  const draft = `${file}.${process.pid}`;
  mkdirSync(dirname(file), { recursive: true });
  for (let told = false; ; told = true) {
    try {
      // A lock names its process from its first moment: a full disk would leave an empty one, which nobody removes.
      writeFileSync(draft, markOf(process.pid));
      linkSync(draft, file);
      break;
    } catch (err) {
      if (err.code !== 'EEXIST') throw err;
    } finally {
      rmSync(draft, { force: true });
    }
    const held = read(file);
    const holder = Number.parseInt(held, 10);
    if (held !== undefined && held !== markOf(holder)) rmSync(file, { force: true });
    else if (!told) say(`waiting for another start in this folder (process ${holder}, ${file})`);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
  }
  const release = () => rmSync(file, { force: true });
  process.once('exit', release);
  return () => {
    process.off('exit', release);
    release();
  };
}

/** As local/processMark.ts marks a process: after a reboot, or in a container, its pid is another's. Empty: it has ended. */
function markOf(pid) {
  if (!existsSync('/proc/self/stat')) {
    const env = { ...process.env, LC_ALL: 'C', TZ: 'UTC' };
    const { stdout } = spawnSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8', env });
    return stdout ? `${pid} ${stdout.trim()}` : '';
  }
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [state, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return /[ZX]/.test(state) ? '' : `${pid} ${read('/proc/sys/kernel/random/boot_id').trim()} ${rest[18]}`;
  } catch {
    return '';
  }
}

function read(file) {
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
}

function say(line) {
  console.error(`  ${line}`);
}

function fail(line) {
  console.error(line);
  process.exit(1);
}
