/** Asks Temporal for `status` and `doctor`: the namespace, its search attributes, the sweep's schedule, the workers. */
import type { Client, Connection } from '@temporalio/client';
import type { Config } from '../config.js';
import { except } from '../promises.js';
import { timeAt } from '../redis/connection/db.js';
import { storeIds } from '../redis/connection/mark.js';
import { ignore } from '../redis/connection/unavailable.js';
import { minutesRead, readMinutes, refusedCalls, refusedStarts } from '../redis/records/minutes.js';
import { runningProcesses } from '../redis/records/processes.js';
import { count, span } from '../web/words.js';
import { type Finding, finding } from './installationChecks.js';
import { type Operator, Refused } from './operation.js';

/** Bounds all calls of `doctor` together, because a person waits. */
const allWithinMs = 10_000;

/** Bounds the call to Temporal, because a person waits. */
export const temporalWithinMs = 5000;

/** Returns how many workers ask for work, and how Temporal answers. */
export async function askTemporal(operator: Operator) {
  try {
    const temporal = await operator.temporal();
    const { askNamespace } = await import('../temporal/connection.js');
    await askNamespace(temporal, temporalWithinMs);
    const askedAt = performance.now();
    let says = 'does not say who asks for work';
    const counting = temporal.connection.withDeadline(Date.now() + temporalWithinMs, async () => {
      const queue = await askQueue(operator);
      if (queue.refused === undefined) says = `answers in ${span(performance.now() - askedAt)}`;
      return countWorkers(operator, queue);
    });
    // Only commands ask this: deliveries may go on.
    return { workers: await counting.catch(() => undefined), says };
  } catch (err) {
    if (err instanceof Refused) return { says: err.message, problem: err.message };
    const { explainTemporal } = await import('../temporal/refusal.js');
    const { says } = await explainTemporal(err, operator.config().temporalConnection);
    return { says, problem: says };
  }
}

/**
 * Says what Temporal did not take of the last minutes, and why: first attempts may be made meanwhile, and this command may reach it by
 * another way than the processes.
 */
export async function describeRefusals(lately: Record<string, number>): Promise<string[]> {
  const { saysOfRefused } = await import('../temporal/refusal.js');
  const during = `in the last ${minutesRead} minutes`;
  const { starts = 0 } = lately;
  const says = starts > 0 ? [`Temporal did not take ${count(starts, 'start')} of workflows ${during}.`] : [];
  for (const [field, times] of Object.entries(lately)) {
    const [what = '', call = '', reason = call] = field.split(':');
    if (`${what}:` === refusedStarts)
      says.push(`${count(times, 'workflow')} could not be started ${during}. ${saysOfRefused(reason)}`);
    // Starts that were refused for good are told above.
    if (`${what}:` === refusedCalls && !(call === 'start' && `${refusedStarts}${reason}` in lately))
      says.push(
        `Temporal did not take ${count(times, 'call')} (${call}) ${during}. ${saysOfRefused(reason)}`,
      );
  }
  return says;
}

export const checkTemporal = async (operator: Operator): Promise<Finding[]> => [
  ...(await checkServer(operator)),
  ...(await checkCalls(operator).catch(() => [])),
];

async function checkCalls(operator: Operator): Promise<Finding[]> {
  const refused = await describeRefusals(await readMinutes(await operator.db()));
  const todo = 'The log of the process says which. If the rest is ok, look again in a few minutes.';
  const level = refused.length > 0 ? 'fail' : 'ok';
  return [finding('temporal calls', level, refused.join(' ') || 'It took those of all processes.', todo)];
}

async function checkServer(operator: Operator): Promise<Finding[]> {
  const [temporal, config] = [await operator.temporal(), operator.config()];
  const { TEMPORAL_NAMESPACE: namespace } = config;
  try {
    const { askNamespace } = await import('../temporal/connection.js');
    await askNamespace(temporal, allWithinMs);
    return await temporal.connection.withDeadline(Date.now() + allWithinMs, async () => {
      const found = [await checkNamespace(temporal, namespace)];
      found.push(await checkSearchAttributes(temporal, namespace));
      const queue = await askQueue(operator);
      const workers = await countWorkers(operator, queue);
      found.push(await checkSweep(operator, queue), checkWorkers(workers, queue.refused, config));
      return [...found, ...(await checkTemporalClock(operator, queue))];
    });
  } catch (err) {
    const { explainTemporal } = await import('../temporal/refusal.js');
    const { reason, says, todo } = await explainTemporal(err, config.temporalConnection);
    if (reason !== 'namespace') return [finding('temporal', 'fail', says, todo)];
    const create = `temporal operator namespace create --namespace ${namespace} --retention 168h, or correct TEMPORAL_NAMESPACE.`;
    return [finding('temporal namespace', 'fail', `There is no namespace ${namespace}.`, create)];
  }
}

async function checkNamespace({ workflowService }: Client, namespace: string): Promise<Finding> {
  const { config } = await workflowService.describeNamespace({ namespace });
  const retentionMs = Number(config?.workflowExecutionRetentionTtl?.seconds ?? 0) * 1000;
  const level = retentionMs >= 86_400_000 ? 'ok' : 'warn';
  const found = `${namespace} keeps closed workflows for ${span(retentionMs)}.`;
  const todo = `After that they can no longer be looked up. temporal operator namespace update --namespace ${namespace} --retention 168h`;
  return finding('temporal namespace', level, found, todo);
}

async function checkSearchAttributes({ connection }: Client, namespace: string): Promise<Finding> {
  const check = 'temporal search attributes';
  const { explainAmiss, findAmiss } = await import('../temporal/searchAttributes.js');
  const { amiss } = await findAmiss(connection as Connection, namespace);
  if (amiss.length === 0) return finding(check, 'ok', `${namespace} has those of the service.`);
  const { lacks, cloud, own } = explainAmiss(namespace, amiss);
  const todo = `A worker adds them within a minute where it may; else: ${cloud} ${own}`;
  return finding(check, 'fail', `No workflow can be started: ${lacks}.`, todo);
}

/** The sweep starts every 15 seconds: three starts missed. */
const sweepLateMs = 60_000;

async function checkSweep(operator: Operator, { schedule, nowMs }: Queue): Promise<Finding> {
  const check = 'temporal sweep';
  if (schedule === undefined) {
    const found = 'There is no schedule for the sweep; a worker creates it when it starts.';
    return finding(check, 'fail', found, 'Start a worker with the same TASK_QUEUE.');
  }
  const { state, info, scheduleId } = schedule;
  const { giveOwnQueue, othersQueue } = await import('../temporal/sweepSchedule.js');
  const reading = operator.db().then(storeIds);
  const others = othersQueue(schedule, await reading.catch(() => []));
  if (others !== undefined) return finding(check, 'fail', `${others}.`, giveOwnQueue(scheduleId));
  if (state.paused) {
    const found = `The schedule of the sweep is paused: ${state.note ?? ''}`;
    return finding(check, 'fail', found, `temporal schedule toggle --unpause --schedule-id ${scheduleId}`);
  }
  const started = info.recentActions.map((action) => action.takenAt.getTime());
  const ranAt = Math.max(info.createdAt.getTime(), info.lastUpdatedAt?.getTime() ?? 0, ...started);
  const ago = Math.max(nowMs - ranAt, 0);
  // While a long sweep runs, no other is started.
  const level = info.runningActions.length > 0 || ago <= sweepLateMs ? 'ok' : 'fail';
  const found = `The sweep last ran ${span(ago)} ago; it is due every 15 s.`;
  return finding(check, level, found, "Check the schedule in Temporal's UI, and the server's log.");
}

/** A clock that is off by less is not told: Temporal's time is known to a minute. */
const temporalClockMs = 120_000;

async function checkTemporalClock(operator: Operator, { nowMs }: Queue): Promise<Finding[]> {
  const reading = operator.db().then((db) => timeAt(db, db.global.accounts));
  const redisMs = await reading.catch(ignore);
  if (redisMs === undefined || nowMs === 0 || Math.abs(redisMs - nowMs) < temporalClockMs) return [];
  const how = redisMs > nowMs ? 'behind' : 'ahead of';
  const found = `Temporal's clock is about ${span(Math.abs(redisMs - nowMs))} ${how} Redis' clock.`;
  return [finding('temporal clock', 'warn', found, 'Check the time service of both (timedatectl).')];
}

function checkWorkers(count: number | undefined, refused: string | undefined, { TASK_QUEUE }: Config) {
  const check = 'temporal workers';
  const unknown = `How many ask for work is unknown. ${refused ?? 'Redis does not tell.'}`;
  if (count === undefined)
    return finding(check, 'warn', unknown, 'Let this command ask (DescribeTaskQueue).');
  if (count > 0) return finding(check, 'ok', `${count} asked for work in the last 90 s, and run.`);
  const todo = `Start one (npm run worker), with TASK_QUEUE=${TASK_QUEUE}.`;
  return finding(check, 'fail', 'No worker asks for work.', todo);
}

/** A worker asks again after a minute at most. */
const polledWithinMs = 90_000;

const sweepEveryMs = 15_000;

export type Queue = Awaited<ReturnType<typeof askQueue>>;

/**
 * Asks Temporal who polled the queue, for the sweep's schedule, and by both for its time, ms, to a minute (0: unknown). Temporal's times
 * are compared with each other alone: another clock may be wrong.
 */
export async function askQueue(operator: Operator) {
  const { workflowService, schedule } = await operator.temporal();
  const { TEMPORAL_NAMESPACE: namespace, TASK_QUEUE: name } = operator.config();
  const { workflowIds } = await import('../temporal/workflowIds.js');
  const { ScheduleNotFoundError } = await import('@temporalio/client');
  const unlessAbsent = except((err) => err instanceof ScheduleNotFoundError);
  let refused: string | undefined;
  const unlessRefused = async (err: unknown) => {
    const { explainTemporal } = await import('../temporal/refusal.js');
    refused = (await explainTemporal(err, operator.config().temporalConnection)).says;
    return { pollers: [] };
  };
  const asked = { namespace, taskQueue: { name }, taskQueueType: 1 };
  const [{ pollers }, described] = await Promise.all([
    workflowService.describeTaskQueue(asked).catch(unlessRefused),
    schedule.getHandle(workflowIds(name).sweep).describe().catch(unlessAbsent),
  ]);
  const polls = pollers.map(({ identity, lastAccessTime }) => ({
    identity,
    atMs: Number(lastAccessTime?.seconds) * 1000,
  }));
  const nextMs = described?.info.nextActionTimes[0]?.getTime() ?? sweepEveryMs;
  const nowMs = Math.max(nextMs - sweepEveryMs, ...polls.map(({ atMs }) => atMs));
  return { polls, refused, schedule: described || undefined, nowMs };
}

/**
 * Counts the workers that asked for workflow tasks lately and have said since that they run: Temporal names for minutes those that ended.
 * @returns undefined if Temporal does not tell who asked, or Redis which run
 */
export async function countWorkers(operator: Operator, { polls, refused, nowMs }: Queue) {
  if (refused !== undefined) return undefined;
  const reading = operator.db().then((db) => runningProcesses(db, db.global.workers));
  const running = await reading.catch(ignore);
  if (!running) return undefined;
  const polled = polls.filter(({ atMs }) => atMs > nowMs - polledWithinMs);
  return new Set(polled.flatMap(({ identity }) => (identity && running.has(identity) ? identity : []))).size;
}
