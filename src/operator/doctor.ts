/** `doctor`: checks settings, Redis and Temporal, and says what to do. */
import { hostname } from 'node:os';
import type { Client, Connection } from '@temporalio/client';
import { z } from 'zod';
import { presentTime } from '../acts/present.js';
import type { Config } from '../config.js';
import { text, yesOrNo } from '../http/schemas.js';
import { publicAddressBeside } from '../outgoing/address.js';
import { type OutgoingProxy, readProxy } from '../outgoing/proxy.js';
import { timeAt } from '../redis/connection/db.js';
import { acceptEmpty } from '../redis/connection/mark.js';
import { ignore } from '../redis/connection/unavailable.js';
import { runningWorkers } from '../redis/records/processes.js';
import { count, span } from '../web/words.js';
import { answer, explainError, type Operator, operation, Refused } from './operation.js';
import { checkRedis, type Finding, finding, levels } from './redisChecks.js';

export const doctor = operation({
  command: 'doctor',
  does: 'check settings, Redis and Temporal',
  role: 'look',
  input: z.object({}),
  answers: z.object({
    level: z.enum(levels),
    findings: z.array(
      z.object({
        check: text('redis memory'),
        level: z.enum(levels),
        found: text('12 MB used without a limit of its own.'),
        do: text('Raise maxmemory.').nullable(),
      }),
    ),
  }),
  async run(operator) {
    const findings = await examine(operator);
    const failed = findings.filter(({ level }) => level === 'fail').length;
    const amiss = findings.filter(({ level }) => level !== 'ok');
    const todos = amiss.map((one) => `\n  ${one.check}: ${one.do}`).join('');
    const worst = failed > 0 ? 'fail' : amiss.length > 0 ? 'warn' : 'ok';
    const rows = findings.map(({ level, check, found }) => [level, check, found]);
    return {
      ...answer(
        { level: worst, findings },
        { head: ['', 'CHECK', 'FOUND'], rows, none: '' },
        todos === '' ? 'Every check is ok.' : `What to do:${todos}`,
      ),
      ...(failed > 0 && { failed: `${count(failed, 'check')} failed.` }),
    };
  },
});

/** Bounds the calls to Temporal together, because a person waits. */
const temporalWithinMs = 10_000;

async function examine(operator: Operator): Promise<Finding[]> {
  let config: Config;
  try {
    config = operator.config();
  } catch (err) {
    const todo = 'Correct each setting that is named; .env.example lists all settings.';
    return [finding('settings', 'fail', explainError(err).replaceAll(/\n */g, ' '), todo)];
  }
  // A server that cannot be checked is a finding.
  const unavailable = (check: string, setting: string) => (err: unknown) => {
    const known = err instanceof Refused ? err.todo : undefined;
    return [finding(check, 'fail', explainError(err), known ?? `Correct ${setting}, or start the server.`)];
  };
  // Loading it blocks this process, on a busy machine for longer than Redis may take to answer.
  await import('@temporalio/client');
  const redis = operator.db().then((db) => checkRedis(db, config));
  const temporal = serversNow(operator).then((nowMs) => checkTemporal(operator, nowMs));
  const servers = await Promise.all([
    redis.catch(unavailable('redis', 'REDIS_URL')),
    temporal.catch(unavailable('temporal', 'TEMPORAL_ADDRESS')),
  ]);
  return [...checkSettings(config), ...(await checkWayOut(config)), ...servers.flat()];
}

function checkSettings(config: Config): Finding[] {
  const { REDIS_URL, SECRETS_KEY, ALLOW_HTTP_TARGETS, ALLOWED_TARGET_CIDRS, certificatesEndAtMs } = config;
  const key = SECRETS_KEY?.[0]?.id;
  const targets = [...(ALLOW_HTTP_TARGETS ? ['http'] : []), ...ALLOWED_TARGET_CIDRS];
  const encrypted =
    key === undefined
      ? 'There is no SECRETS_KEY: signing secrets are readable in Redis and in its backups.'
      : `Signing secrets are encrypted with the key "${key}".`;
  const encrypt =
    'Set SECRETS_KEY to <id>:<base64 of 32 bytes>, for the service and for this command, then run: secrets reencrypt';
  const sent =
    targets.length === 0
      ? 'Notifications go to public https addresses only.'
      : `Notifications may also go to ${targets.join(', ')}.`;
  const restrict =
    'That is for trying the service out ("npm start" sets it). In production leave ALLOW_HTTP_TARGETS and ALLOWED_TARGET_CIDRS unset.';
  const isClosed = /:[^/@]+@|[/@](127\.|localhost\b|\[::1\])/.test(REDIS_URL);
  const open = 'REDIS_URL has no password: whoever reaches Redis may read and change everything.';
  const close = 'Set requirepass, and REDIS_URL with it; rediss:// where others see that network.';
  return [
    ...(isClosed ? [] : [finding('settings REDIS_URL', 'warn', open, close)]),
    ...(certificatesEndAtMs === Number.POSITIVE_INFINITY ? [] : [checkCertificates(certificatesEndAtMs)]),
    finding('settings SECRETS_KEY', key === undefined ? 'warn' : 'ok', encrypted, encrypt),
    finding('settings targets', targets.length > 0 ? 'warn' : 'ok', sent, restrict),
  ];
}

/** The alert warns as early. */
const certificatesEndSoonMs = 7 * 86_400_000;

function checkCertificates(endAtMs: number): Finding {
  const leftMs = endAtMs - Date.now();
  const level = leftMs <= 0 ? 'fail' : leftMs < certificatesEndSoonMs ? 'warn' : 'ok';
  const found = `The certificates for Temporal are valid until ${presentTime(endAtMs)}.`;
  const todo = 'Renew the files, and restart every process: each reads them at its start only.';
  return finding('settings TEMPORAL_TLS', level, found, todo);
}

/** Tries the proxy to receivers, and compares the addresses that receivers are told with those of this machine. */
async function checkWayOut(config: Config): Promise<Finding[]> {
  const findings: Finding[] = [];
  const proxy = readProxy(config);
  if (proxy !== undefined) {
    const fault = await proxy.fault();
    const found =
      fault === undefined ? 'The proxy answers.' : `Nothing can be sent through the proxy: ${fault}.`;
    const todo = 'Start the proxy, or correct host, port and credentials in OUTGOING_PROXY.';
    findings.push(finding('settings OUTGOING_PROXY', fault === undefined ? 'ok' : 'fail', found, todo));
    if (proxy.resolves && fault === undefined) findings.push(await checkRule(proxy, config));
  }
  const { SOURCE_ADDRESSES: told } = config;
  if (told.length > 0) {
    const other = proxy === undefined ? publicAddressBeside(told) : undefined;
    const found =
      other === undefined
        ? `Receivers are told ${told.join(', ')}.`
        : `This machine has the address ${other}, which receivers are not told.`;
    const todo =
      'If notifications come from there, add it to SOURCE_ADDRESSES, and tell the customers first.';
    findings.push(finding('settings SOURCE_ADDRESSES', other === undefined ? 'ok' : 'warn', found, todo));
  }
  return findings;
}

/** A proxy that looks names up must refuse what the service refuses by address: it is tried with the operators' port. */
async function checkRule(proxy: OutgoingProxy, { ADMIN_HOST, ADMIN_PORT }: Config): Promise<Finding> {
  const hosts = [...new Set(['localhost', '127.0.0.1', '::1', hostname(), ADMIN_HOST])];
  const tryHost = async (host: string) => ({ host, way: await proxy.leadsTo(host, ADMIN_PORT) });
  const ways = await Promise.all(hosts.map(tryHost));
  const open = ways.filter(({ way }) => way === 'there').map(({ host }) => host);
  const isTried = ways.some(({ host, way }) => host === '127.0.0.1' && way === 'found no way');
  const found =
    open.length > 0
      ? `The proxy leads to the operators' port (ADMIN_PORT) at ${open.join(', ')}: a customer's URL could, too.`
      : isTried
        ? 'The proxy tries loopback addresses: it seems to have no rule against private ones.'
        : "The proxy refuses the operators' port.";
  const todo =
    'Have it refuse, after it has looked a name up, loopback, private and link-local addresses. Squid: acl private dst 0.0.0.0/8 10.0.0.0/8 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.168.0.0/16 ::1 fc00::/7 fe80::/10, then http_access deny private, before every allow.';
  return finding(
    'settings OUTGOING_PROXY_RESOLVES',
    open.length > 0 ? 'fail' : isTried ? 'warn' : 'ok',
    found,
    todo,
  );
}

async function checkTemporal(operator: Operator, nowMs: number): Promise<Finding[]> {
  const [temporal, config] = [await operator.temporal(), operator.config()];
  const { TEMPORAL_NAMESPACE: namespace, TASK_QUEUE } = config;
  try {
    return await temporal.connection.withDeadline(Date.now() + temporalWithinMs, async () => [
      await checkNamespace(temporal, namespace),
      await checkSearchAttributes(temporal, namespace),
      await checkSweep(temporal, TASK_QUEUE, nowMs),
      checkWorkers(await countWorkers(operator, nowMs), config),
    ]);
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

async function checkSweep(temporal: Client, taskQueue: string, nowMs: number): Promise<Finding> {
  const check = 'temporal sweep';
  const { workflowIds } = await import('../temporal/workflowIds.js');
  const { ScheduleNotFoundError } = await import('@temporalio/client');
  const scheduleId = workflowIds(taskQueue).sweep;
  try {
    const { state, info } = await temporal.schedule.getHandle(scheduleId).describe();
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
  } catch (err) {
    if (!(err instanceof ScheduleNotFoundError)) throw err;
    const found = 'There is no schedule for the sweep; a worker creates it when it starts.';
    return finding(check, 'fail', found, 'Start a worker with the same TASK_QUEUE.');
  }
}

function checkWorkers(count: number | undefined, { TASK_QUEUE }: Config): Finding {
  const check = 'temporal workers';
  if (count === undefined)
    return finding(check, 'warn', 'How many ask for work is unknown: Redis does not tell.', 'See redis.');
  if (count > 0) return finding(check, 'ok', `${count} asked for work in the last 90 s, and run.`);
  const todo = `Start one (npm run worker), with TASK_QUEUE=${TASK_QUEUE}.`;
  return finding(check, 'fail', 'No worker asks for work.', todo);
}

/** A worker asks again after a minute at most. */
const polledWithinMs = 90_000;

/** Returns Redis' time, ms: Temporal tells no time, and the clock of the operator's machine may be wrong. */
export const serversNow = ({ db }: Operator): Promise<number> =>
  db()
    .then((store) => timeAt(store, store.global.accounts))
    .catch(() => Date.now());

/**
 * Counts the workers that asked for workflow tasks lately and have said since that they run: Temporal names for minutes those that ended.
 * @param nowMs of {@link serversNow}
 * @returns undefined if Redis does not tell which run
 */
export async function countWorkers(operator: Operator, nowMs: number): Promise<number | undefined> {
  const { workflowService } = await operator.temporal();
  const { TEMPORAL_NAMESPACE: namespace, TASK_QUEUE: name } = operator.config();
  const running = await operator.db().then(runningWorkers).catch(ignore);
  if (!running) return undefined;
  const asked = { namespace, taskQueue: { name }, taskQueueType: 1 };
  const { pollers } = await workflowService.describeTaskQueue(asked);
  const lately = nowMs - polledWithinMs;
  const polled = pollers.filter(({ lastAccessTime }) => Number(lastAccessTime?.seconds) * 1000 > lately);
  return new Set(polled.flatMap(({ identity }) => (identity && running.has(identity) ? identity : []))).size;
}

export const storeAcceptEmpty = operation({
  command: 'store accept-empty',
  does: 'say that the store, which has lost its data, is meant to be empty',
  role: 'admin',
  input: z.object({}),
  answers: z.object({ accepted: yesOrNo(true) }),
  async run(operator) {
    if (!(await operator.change(acceptEmpty))) throw new Refused('The store has not lost its data.');
    await operator.record('store accept-empty', 'store', null, null);
    const text = 'Every process serves again within 5 seconds. Nothing of the lost data comes back.';
    return answer({ accepted: true }, text);
  },
});
