/**
 * `npm start`: everything on this machine. Brings up Temporal, Redis and the service, one line of progress each, and
 * stops all of it in order when it is told to, or when one of them ends. With `--watch` (`npm run dev`) it restarts the
 * service at every change of the code; with `--inspect` the service accepts a debugger.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, linkSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hostInUrl } from '../src/addresses.js';
import { type Config, isRedisGiven, isTemporalGiven, killedAfterSeconds, readConfig } from '../src/config.js';
import type { Readiness } from '../src/http/admin.js';
import { messageOf } from '../src/log.js';
import { dataDir, projectDir } from '../src/operator/npmStart.js';
import { explainRefusals } from '../src/redis/connection/unavailable.js';
import { redisBinary, temporalBinary } from './binaries.js';
import { startChild, waitUntilReady } from './child.js';
import { consoleLink, demoAccount, deskLink, nextSteps } from './demoAccount.js';
import { nodeFlags } from './nodeFlags.js';
import { PortPlan } from './ports.js';
import { startRedis } from './redis.js';
import { restartOnChange } from './restartOnChange.js';
import { claimFolder, Supervisor, stopOnSignals } from './supervisor.js';
import { searchAttributeBytes, startTemporal } from './temporal.js';

/** Further targets, allowed beside public addresses. */
const loopback = '127.0.0.0/8,::1/128';
const say = (line: string) => console.log(`  ${line}`);
const begun = Date.now();
/** What the service waits for, as far as it was said. */
const told = new Set<string>();
const dir = dataDir();
const isWatching = process.argv.includes('--watch');
const inspectFlags = process.argv.filter((arg) => arg.startsWith('--inspect'));

// A closed terminal must not keep the servers from being stopped.
process.stdout.on('error', () => undefined);
process.stderr.on('error', () => undefined);

const options = process.argv.slice(2);
const unknown = options.find((arg) => !/^--(watch|help|inspect(-brk|-wait)?(=.*)?)$/.test(arg));
if (unknown !== undefined || options.includes('--help')) {
  const usage =
    'npm start [-- --inspect]: everything on this machine; settings are environment variables (docs/reference/settings.md)';
  console.error(unknown === undefined ? usage : `npm start: unknown argument ${unknown}\n${usage}`);
  process.exit(unknown === undefined ? 0 : 2);
}
try {
  const config = readConfig();
  const claimed = await claimFolder(dir, killedAfterSeconds(config) * 1000, say);
  const supervisor = new Supervisor(dir, claimed, isWatching);
  stopOnSignals(supervisor);
  if (process.env.npm_lifecycle_event) stopWithoutParent(supervisor);
  try {
    await bringUp(config, supervisor);
  } catch (err) {
    await supervisor.stop(reasonOf(err), 1);
  }
} catch (err) {
  console.error(reasonOf(err));
  process.exit(1);
}

function reasonOf(err: unknown): string {
  const isFull = err instanceof Error && 'code' in err && err.code === 'ENOSPC';
  return isFull ? `The disk of ${dir} is full` : messageOf(err);
}

async function bringUp(config: Config, supervisor: Supervisor): Promise<void> {
  const { state } = supervisor;
  const ports = new PortPlan(say);
  const port = await ports.exactly('PORT', config.PORT, config.HOST);
  const adminPort = await ports.preferably('ADMIN_PORT', 9464);
  const [redisUrl, temporal] = await Promise.all([
    isRedisGiven() ? config.REDIS_URL : ownRedis(supervisor, await ports.preferably('REDIS_PORT', 6379)),
    isTemporalGiven()
      ? { address: config.TEMPORAL_ADDRESS, uiUrl: undefined }
      : ownTemporal(supervisor, config, ports),
  ]);

  const apiUrl = `http://${hostInUrl(config.HOST)}:${port}`;
  const environment = {
    HOST: config.HOST,
    PORT: String(port),
    ADMIN_PORT: String(adminPort),
    REDIS_URL: redisUrl,
    TEMPORAL_ADDRESS: temporal.address,
    ...(temporal.uiUrl && { TEMPORAL_UI_URL: config.TEMPORAL_UI_URL ?? temporal.uiUrl }),
    ...(isTemporalGiven() ? {} : { SEARCH_ATTRIBUTE_BYTES: String(searchAttributeBytes) }),
    ...localSettings(ports.all()),
  };
  Object.assign(state, { apiUrl, environment });
  supervisor.save();

  const startService = () =>
    step('service', apiUrl, () => service(supervisor, config, environment, `${apiUrl}/readyz`));
  await startService();
  say(`notifications may go to http and to ${loopback} (not to the service's own ports), for trying it out`);
  const paste = await demo(apiUrl, environment);
  if (supervisor.isStopping) return;
  // Before "ready" is printed: a change right afterwards counts.
  if (isWatching) restartOnChange(supervisor, say, startService);
  console.log(`
ready after ${((Date.now() - begun) / 1000).toFixed(1)} s

  API          ${apiUrl}   (${apiUrl}/docs)
  Temporal UI  ${temporal.uiUrl ?? `that of ${temporal.address}`}
  metrics      http://${hostInUrl(config.ADMIN_HOST)}:${adminPort}/metrics
  logs, data   ${dir}

${paste}

Ctrl-C stops all of it; the next start goes on where this one stopped.`);
}

async function ownRedis(supervisor: Supervisor, port: number): Promise<string> {
  return step('redis', `redis://127.0.0.1:${port}`, async () => {
    const binary = await redisBinary(say);
    const options = { port, binary, dir: join(dir, 'redis'), logFile: logFile('redis') };
    return (await startRedis({ ...options, onStart: supervisor.adopt, say })).url;
  });
}

async function ownTemporal(supervisor: Supervisor, config: Config, ports: PortPlan) {
  const port = await ports.preferably('TEMPORAL_PORT', 7233);
  const uiPort = await ports.preferably('TEMPORAL_UI_PORT', 8233);
  const uiUrl = `http://127.0.0.1:${uiPort}`;
  return step('temporal', `127.0.0.1:${port}, UI at ${uiUrl}`, async () => {
    const binary = await temporalBinary(say);
    const options = {
      port,
      uiPort,
      binary,
      namespace: config.TEMPORAL_NAMESPACE,
      dir,
      logFile: logFile('temporal'),
    };
    return { address: (await startTemporal({ ...options, onStart: supervisor.adopt })).address, uiUrl };
  });
}

/** Starts API and worker in one process: a workflow started here can begin here, without a round trip through the server. */
async function service(
  supervisor: Supervisor,
  config: Config,
  environment: Record<string, string>,
  readyUrl: string,
): Promise<void> {
  const child = await startChild({
    name: 'service',
    command: process.execPath,
    args: [...nodeFlags, ...inspectFlags, join(projectDir, 'dist/src/main.js'), 'all'],
    env: { ...process.env, ...environment },
    logFile: logFile('service'),
    graceMs: killedAfterSeconds(config) * 1000,
    onStart: supervisor.adopt,
  });
  await waitUntilReady(child, () => isReady(readyUrl), 60_000);
}

/** Says once what the service waits for. */
async function isReady(readyUrl: string): Promise<boolean> {
  try {
    const answer = await fetch(readyUrl, { signal: AbortSignal.timeout(2000) });
    const { temporal, reasons = [] } = (await answer.json()) as Readiness;
    const waits = explainRefusals(reasons.map((reason) => ({ reason }))).map(
      ({ says, todo }) => `${says} ${todo}`,
    );
    if (!temporal && isTemporalGiven())
      waits.push('Temporal does not serve yet: the log of the service says why.');
    for (const text of waits.filter((one) => !told.has(one))) {
      told.add(text);
      say(text);
    }
    return answer.ok;
  } catch {
    return false;
  }
}

async function demo(apiUrl: string, environment: Record<string, string>): Promise<string> {
  try {
    const account = await demoAccount(dir, apiUrl, environment, say);
    const [link, desk] = await Promise.all([consoleLink(environment, account), deskLink(environment)]);
    const toDesk = desk && `The operators' desk (once, for 15 minutes):\n\n${desk}\n\n`;
    const toConsole = link && `The demo account's console (once, for 15 minutes):\n\n${link}\n\n`;
    return (toConsole ?? '') + (toDesk ?? '') + nextSteps;
  } catch (err) {
    return `The demo account could not be created, nor read from ${dir}/demo.json: ${messageOf(err)}`;
  }
}

/** A killed npm sends no signal: without this its servers would keep running. */
function stopWithoutParent(supervisor: Supervisor): void {
  const parent = process.ppid;
  setInterval(() => {
    if (process.ppid !== parent) void supervisor.stop('npm is gone', 1);
  }, 500).unref();
}

/** Returns the service's settings for trying it out on this machine, added to those of the environment. */
function localSettings(ownPorts: readonly number[]): Record<string, string> {
  return {
    ALLOW_HTTP_TARGETS: 'true',
    ALLOWED_TARGET_CIDRS: [process.env.ALLOWED_TARGET_CIDRS, loopback].filter(Boolean).join(','),
    OWN_PORTS: [process.env.OWN_PORTS, ...ownPorts].filter(Boolean).join(','),
    SECRETS_KEY: process.env.SECRETS_KEY?.trim() || secretsKey(),
  };
}

/** Returns the key that encrypts signing secrets, in the form of `SECRETS_KEY`; made once per data folder. */
function secretsKey(): string {
  const file = join(dir, 'secrets-key');
  if (!existsSync(file)) {
    const draft = `${file}.${process.pid}`;
    // On the disk before what it encrypts: a power failure could leave an empty file.
    writeFileSync(draft, `k1:${randomBytes(32).toString('base64')}\n`, { mode: 0o600, flush: true });
    linkSync(draft, file);
    rmSync(draft);
  }
  const key = readFileSync(file, 'utf8').trim();
  if (!key) throw new Error(`${file} is empty: restore it, or remove ${dir} to begin anew`);
  return key;
}

/** Returns the one log file of a server of a data folder; renames it first if it is long. */
function logFile(name: string): string {
  const file = join(dir, 'logs', `${name}.log`);
  const longBytes = 32 * 1024 * 1024;
  if (existsSync(file) && statSync(file).size > longBytes) renameSync(file, `${file}.1`);
  return file;
}

/** Runs a step of a start, then prints its address and how long it took. */
async function step<T>(name: string, where: string, work: () => Promise<T>): Promise<T> {
  const from = Date.now();
  const result = await work();
  say(`${name.padEnd(10)} ${where} (${((Date.now() - from) / 1000).toFixed(1)} s)`);
  return result;
}
