/** `doctor`: checks settings, Redis and Temporal, and says what to do. */
import type { Client } from '@temporalio/client';
import type { Config } from '../config.js';
import { checkRedis, type Finding, fail, ok, warn } from './redisChecks.js';
import { type AddCommand, type Operator, Refused, reasonOf } from './session.js';
import { amount, paint, span, table } from './terminal.js';

export function addDoctorCommand(add: AddCommand): void {
  add('doctor', 'check settings, Redis and Temporal; exit status 1 if a check fails', doctor);
}

async function doctor(operator: Operator): Promise<void> {
  const findings = await examine(operator);
  const levels = findings.map(({ level }) => level);
  const level = levels.includes('fail') ? 'fail' : levels.includes('warn') ? 'warn' : 'ok';
  operator.answer(
    { level, findings: findings.map(({ todo, ...finding }) => ({ ...finding, do: todo ?? null })) },
    () => describe(findings),
  );
  const failed = levels.filter((each) => each === 'fail').length;
  if (failed > 0) throw new Refused(`${amount(failed, 'check')} failed.`);
}

/** The longest calls to Temporal together, because a person waits. */
const temporalWithinMs = 10_000;

async function examine(operator: Operator): Promise<Finding[]> {
  let config: Config;
  try {
    config = operator.config();
  } catch (err) {
    const todo = 'Correct each setting that is named; .env.example lists all settings.';
    return [fail('settings', reasonOf(err), todo)];
  }
  const [redis, temporal] = await Promise.all([
    attempt('redis', 'Correct REDIS_URL, or start the server.', async () =>
      checkRedis(await operator.db(), config),
    ),
    attempt(
      'temporal',
      'Correct TEMPORAL_ADDRESS (and TEMPORAL_TLS, TEMPORAL_API_KEY), or start the server.',
      async () => {
        const temporal = await operator.temporal();
        return await temporal.connection.withDeadline(Date.now() + temporalWithinMs, () =>
          checkTemporal(temporal, config),
        );
      },
    ),
  ]);
  return [...checkSettings(config), ...redis, ...temporal];
}

/** A server that cannot be checked is a finding too. */
async function attempt(check: string, todo: string, look: () => Promise<Finding[]>): Promise<Finding[]> {
  try {
    return await look();
  } catch (err) {
    return [fail(check, reasonOf(err), todo)];
  }
}

function checkSettings({ SECRETS_KEY, ALLOW_HTTP_TARGETS, ALLOWED_TARGET_CIDRS }: Config): Finding[] {
  const allowed = [...(ALLOW_HTTP_TARGETS ? ['http'] : []), ...ALLOWED_TARGET_CIDRS];
  return [
    SECRETS_KEY !== undefined
      ? ok('settings SECRETS_KEY', `Signing secrets are encrypted with the key "${SECRETS_KEY[0]?.id}".`)
      : warn(
          'settings SECRETS_KEY',
          'There is no SECRETS_KEY: signing secrets are readable in Redis and in its backups.',
          'Set SECRETS_KEY to <id>:<base64 of 32 bytes>, for the service and for this command, then run: secrets reencrypt',
        ),
    allowed.length === 0
      ? ok('settings targets', 'Notifications go to public https addresses only.')
      : warn(
          'settings targets',
          `Notifications may also go to ${allowed.join(', ')}.`,
          'That is for trying the service out ("npm start" sets it). In production leave ALLOW_HTTP_TARGETS and ALLOWED_TARGET_CIDRS unset.',
        ),
  ];
}

/** gRPC */
const notFound = 5;

async function checkTemporal(temporal: Client, config: Config): Promise<Finding[]> {
  const { TEMPORAL_NAMESPACE: namespace, TASK_QUEUE: taskQueue } = config;
  try {
    return [
      await checkNamespace(temporal, namespace),
      await checkSweep(temporal, taskQueue),
      await checkWorkers(temporal, config),
    ];
  } catch (err) {
    const { isGrpcServiceError } = await import('@temporalio/client');
    if (!isGrpcServiceError(err) || err.code !== notFound) throw err;
    const todo = `temporal operator namespace create --namespace ${namespace} --retention 168h, or correct TEMPORAL_NAMESPACE.`;
    return [fail('temporal namespace', `There is no namespace ${namespace}.`, todo)];
  }
}

async function checkNamespace({ workflowService }: Client, namespace: string): Promise<Finding> {
  const check = 'temporal namespace';
  const { config } = await workflowService.describeNamespace({ namespace });
  const retentionMs = Number(config?.workflowExecutionRetentionTtl?.seconds ?? 0) * 1000;
  const found = `${namespace} keeps closed workflows for ${span(retentionMs)}.`;
  if (retentionMs >= 86_400_000) return ok(check, found);
  const todo = `After that they can no longer be looked up. temporal operator namespace update --namespace ${namespace} --retention 168h`;
  return warn(check, found, todo);
}

/** The sweep starts every 15 seconds: three starts missed. */
const sweepLateMs = 60_000;

async function checkSweep(temporal: Client, taskQueue: string): Promise<Finding> {
  const check = 'temporal sweep';
  const { workflowIds } = await import('../temporal/workflowIds.js');
  const scheduleId = workflowIds(taskQueue).sweep;
  const { ScheduleNotFoundError } = await import('@temporalio/client');
  try {
    const { state, info } = await temporal.schedule.getHandle(scheduleId).describe();
    if (state.paused) {
      const found = `The schedule of the sweep is paused: ${state.note ?? ''}`;
      return fail(check, found, `temporal schedule toggle --unpause --schedule-id ${scheduleId}`);
    }
    const started = info.recentActions.map((action) => action.takenAt.getTime());
    const ranAt = Math.max(info.createdAt.getTime(), info.lastUpdatedAt?.getTime() ?? 0, ...started);
    const ago = Math.max(Date.now() - ranAt, 0);
    const found = `The sweep last ran ${span(ago)} ago; it is due every 15 s.`;
    // While a long sweep runs, no other is started.
    if (info.runningActions.length > 0 || ago <= sweepLateMs) return ok(check, found);
    return fail(check, found, "Check the schedule in Temporal's UI, and the server's log.");
  } catch (err) {
    if (!(err instanceof ScheduleNotFoundError)) throw err;
    const found = 'There is no schedule for the sweep; a worker creates it when it starts.';
    return fail(check, found, 'Start a worker with the same TASK_QUEUE.');
  }
}

async function checkWorkers(temporal: Client, config: Config): Promise<Finding> {
  const count = await countWorkers(temporal, config);
  if (count > 0) return ok('temporal workers', `${count} asked for work in the last 90 s.`);
  const todo = `Start one (npm run worker), with TASK_QUEUE=${config.TASK_QUEUE}.`;
  return fail('temporal workers', 'No worker asks for work.', todo);
}

/** A worker asks again after a minute at most. */
const polledWithinMs = 90_000;

/** Counts the workers that asked for workflow tasks lately. */
export async function countWorkers(
  { workflowService }: Client,
  { TEMPORAL_NAMESPACE, TASK_QUEUE }: Config,
): Promise<number> {
  const { pollers } = await workflowService.describeTaskQueue({
    namespace: TEMPORAL_NAMESPACE,
    taskQueue: { name: TASK_QUEUE },
    taskQueueType: 1,
  });
  const lately = Date.now() - polledWithinMs;
  const polled = (pollers ?? []).filter(
    (poller) => Number(poller.lastAccessTime?.seconds ?? 0) * 1000 > lately,
  );
  return new Set(polled.map((poller) => poller.identity)).size;
}

const colours = { ok: 'green', warn: 'yellow', fail: 'red' } as const;

function describe(findings: readonly Finding[]): string {
  const lines = table(
    ['', 'CHECK', 'FOUND'],
    findings.map(({ level, check, found }) => [level, check, found]),
    '',
  ).replace(/^(ok|warn|fail)\b/gm, (level) => paint(colours[level as Finding['level']], level));
  const todos = findings.filter((finding) => finding.todo !== undefined);
  if (todos.length === 0) return `${lines}\n\nEvery check is ok.`;
  return [lines, '', 'What to do:', ...todos.map(({ check, todo }) => `  ${check}: ${todo}`)].join('\n');
}
