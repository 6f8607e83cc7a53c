/**
 * The process behind `npm run stack -- up`: starts the parts, restarts a part that ends by itself, and stops all of them in
 * order on a signal. Its messages go to its log and, until the stack is up, to the command that started it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Config, readConfig } from '../../src/config.js';
import { messageOf } from '../../src/messageOf.js';
import { claimFolder } from '../claimFolder.js';
import { PortPlan } from '../portPlan.js';
import { step } from '../step.js';
import { Supervisor, stopOnSignals } from '../supervisor.js';
import { stackDir } from './folders.js';
import { partsOf, serviceEnvironment, stopOrder } from './parts.js';
import { chooseStackPorts, type PartName } from './ports.js';
import { findPrograms } from './programs.js';
import { isFollowing } from './withRedis.js';

/** Messages to the command. */
export type FromSupervisor = { say: string } | { ready: true };

const dir = stackDir();
const say = (line: string) => {
  console.log(line);
  if (process.connected) process.send?.({ say: line } satisfies FromSupervisor);
};
const longestPauseMs = 30_000;
let isUp = false;
let parts: Record<string, () => Promise<unknown>> = {};
const startingAgain = new Set<string>();

try {
  const config = readConfig();
  const supervisor = new Supervisor(dir, await claimFolder(dir, say), {
    order: stopOrder,
    isReplaced(name) {
      if (isUp) void startAgain(supervisor, name);
      return isUp;
    },
  });
  stopOnSignals(supervisor);
  try {
    await bringUp(config, supervisor);
  } catch (err) {
    say(messageOf(err));
    await supervisor.stop(messageOf(err), 1);
  }
} catch (err) {
  say(messageOf(err));
  process.exit(1);
}

async function bringUp(config: Config, supervisor: Supervisor): Promise<void> {
  const { state } = supervisor;
  const programs = await findPrograms(say);
  const ports = await chooseStackPorts(new PortPlan(say), dir);
  const options = { dir, config, programs, ports, onStart: supervisor.adopt, say };
  const all = partsOf(options);
  parts = all;
  const environment = serviceEnvironment(options);
  Object.assign(state, {
    redisUrl: environment.REDIS_URL,
    temporalAddress: environment.TEMPORAL_ADDRESS,
    apiUrl: `http://127.0.0.1:${ports.ports.balancer}`,
    ports: { ...ports.ports, temporal: ports.temporal.FRONTEND_GRPC_PORT },
    environment: {
      ...environment,
      PORT: String(ports.ports.balancer),
      ADMIN_PORT: String(ports.ports['admin-1']),
    },
  });
  supervisor.save();

  const start = async (name: PartName) => {
    if (!supervisor.isStopping) await step(say, name, `127.0.0.1:${state.ports?.[name]}`, all[name]);
  };
  const startRedisAndReplica = async () => {
    await start('redis');
    await start('replica');
    while (!supervisor.isStopping && !(await isFollowing(ports.ports.replica))) await sleep(50);
  };
  const startPostgresqlAndTemporal = async () => {
    await start('postgresql');
    await start('temporal');
  };
  await Promise.all([startRedisAndReplica(), startPostgresqlAndTemporal()]);
  await Promise.all([start('service-1'), start('service-2')]);
  await start('balancer');
  if (programs.prometheus) await start('prometheus');
  else say('prometheus is not on PATH; the stack runs without it');
  isUp = true;
  if (process.connected) {
    process.send?.({ ready: true } satisfies FromSupervisor);
    process.disconnect();
  }
}

async function startAgain(supervisor: Supervisor, name: string): Promise<void> {
  if (startingAgain.has(name)) return;
  startingAgain.add(name);
  for (let pauseMs = 250; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    await sleep(pauseMs);
    if (supervisor.isStopping) return;
    try {
      await parts[name]?.();
      break;
    } catch (err) {
      console.error(`${name} could not be restarted: ${messageOf(err)}`);
    }
  }
  startingAgain.delete(name);
  console.log(`${new Date().toISOString()} ${name} was restarted`);
}
