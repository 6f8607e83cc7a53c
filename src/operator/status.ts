/** `status`: whether it is us or them, and the clients that are worst off. */
import { z } from 'zod';
import { presentTime } from '../acts/present.js';
import { integer, text, time } from '../http/schemas.js';
import { ignore, isRedisUnavailable } from '../redis/connection/unavailable.js';
import { readCounts } from '../redis/records/counts.js';
import { secretsKeyFault } from '../redis/records/installation.js';
import { minutesRead, readFailedTasks, readMinutes } from '../redis/records/minutes.js';
import { runningProcesses } from '../redis/records/processes.js';
import { count, distance, span } from '../web/words.js';
import { answer, explainError, type Operator, operation, Refused } from './operation.js';
import { askRedis, describeLosses } from './redisChecks.js';
import { type ClientStatus, readClients, situations, situationTable } from './situations.js';
import { askTemporal, describeRefusals, temporalWithinMs } from './temporalChecks.js';
import type { Part } from './terminal.js';

export const oneOfWorst = z.object({
  client_token: text('SITE0042'),
  name: text('Example Site'),
  account_id: text('acc_3q2-7wABAgMEBQYH'),
  state: text('failing'),
  situation: z.enum(situations),
  do: text(situationTable.failing.todo),
  owed: integer(12),
  owed_since: time().nullable(),
  failed: integer(0),
  failed_since: time().nullable(),
  overdue_seconds: integer(0),
  next_attempt_at: time().nullable(),
  failures: integer(7),
  last_error: text('http_status').nullable(),
  last_detail: text('refused').nullable(),
  last_status: integer(503).nullable(),
  last_success_at: time().nullable(),
});

export const status = operation({
  command: 'status',
  does: 'say whether it is us or them, and show the worst clients',
  role: 'look',
  input: z.object({}),
  answers: z.object({
    verdict: z.enum(['fine', 'us', 'them']),
    because: text('Nothing is overdue and no endpoint is failing.'),
    lag_seconds: integer(0),
    owed: integer(12),
    owed_clients: integer(1),
    failed: integer(0, 'Videos that were given up, and neither recovered, replaced nor dismissed.'),
    redis: text('ok'),
    temporal: text('ok'),
    workers: integer(2).nullable(),
    calls: integer(250),
    calls_failed: integer(0),
    amiss: integer(1, 'How many clients are in a situation; `worst` has the first of them.'),
    worst: z.array(oneOfWorst),
  }),
  run: (operator) =>
    look(operator).catch((err: unknown) => {
      if (err instanceof Refused && err.todo) throw new Refused(`It is us. ${err.message} ${err.todo}`);
      throw isRedisUnavailable(err) ? new Refused(`It is us. ${explainError(err)}`) : err;
    }),
});

async function look(operator: Operator) {
  const db = await operator.db();
  // Temporal later: loading its client blocks this process, on a busy machine for longer than Redis may take to answer.
  const redis = await askRedis(db);
  const key = await secretsKeyFault(db, operator.config().SECRETS_KEY).catch(ignore);
  if (key) operator.warn(`${key.says}.`);
  const temporal = await askTemporal(operator);
  const amissOf = redis.amiss.map(({ check, found }) => (db.nodes.isCluster ? `${check}: ${found}` : found));
  const problems = [...amissOf, ...describeLosses(db)];
  const reading = Promise.all([readCounts(db), readMinutes(db), readClients(db)]);
  const [{ ended }, lately, { clients, broken }] = await reading.catch((err: unknown) => {
    if (!redis.refuses) throw err;
    return [{ ended: undefined }, { total: 0, failed: 0 }, { clients: [], broken: [] }] as const;
  });
  const late = clients.filter(({ situation }) => situation === 'late');
  late.sort((a, b) => b.endpoint.overdueMs - a.endpoint.overdueMs);
  const refusals = await describeRefusals(lately);
  const ours = [...problems, ...refusals, ...describeFailures(lately), temporal.problem];
  ours.push(...(await describeFailedTasks(operator).catch(() => [])));
  ours.push(...ownProblems(late, broken, ended?.ageMs));
  if (temporal.workers === 0) ours.push('No worker asks Temporal for work.');
  // While Redis refuses, a process cannot say that it runs.
  const apis = problems.length > 0 ? undefined : await runningProcesses(db, db.global.processes);
  if (apis?.size === 0) ours.push('No process with an API runs.');
  const failed = clients.reduce((sum, { endpoint }) => sum + endpoint.failed, 0);
  const { verdict, because, heading } = judge(ours.filter(Boolean).join(' '), clients, failed);
  const lagMs = late[0]?.endpoint.overdueMs ?? 0;
  const owing = clients.filter(({ endpoint }) => endpoint.owed > 0);
  const owed = totalOwed(owing);
  const rank = ({ situation }: ClientStatus) => situations.indexOf(situation);
  const amiss = clients
    .filter(({ situation }) => situation !== 'clear')
    .sort((a, b) => rank(a) - rank(b) || b.endpoint.owed - a.endpoint.owed);
  const worst = amiss.slice(0, maxNamed);
  const facts = {
    redis: `answers in ${span(redis.answerMs)}${redis.refuses ? ', calls of publishers fail' : ''}`,
    temporal: temporal.says,
    workers: temporal.workers ?? 'unknown',
    owed: `${owed === 0 ? 'nothing' : `${owed} to ${count(owing.length, 'client')}`}; lag: ${lagMs === 0 ? 'none' : span(lagMs)}`,
  };
  const isWell = heading.tone === 'good';
  const shown = isWell ? worst.slice(0, maxNamedWhenFine) : worst;
  return answer(
    {
      verdict,
      because,
      lag_seconds: Math.round(lagMs / 1000),
      owed,
      owed_clients: owing.length,
      failed,
      redis: problems.join(' ') || 'ok',
      temporal: temporal.problem ?? 'ok',
      workers: temporal.workers ?? null,
      calls: lately.total ?? 0,
      calls_failed: lately.failed ?? 0,
      amiss: amiss.length,
      worst: worst.map(present),
    },
    heading,
    { facts },
    ...worstTable(shown, isWell ? 0 : amiss.length),
  );
}

/** The most clients that one answer names. */
const maxNamed = 20;
/** With so many clients a healthy answer has ten lines. */
const maxNamedWhenFine = 2;

/** The sweep runs every 15 seconds; the alert waits as long (deploy/prometheus/alerts.yml). */
const sweptWithinMs = 180_000;

/**
 * @param late the client that is late for longest first
 * @param unsweptMs by Redis' clock; undefined: no sweep has completed yet
 */
function ownProblems(late: readonly ClientStatus[], broken: readonly string[], unsweptMs = 0) {
  const problems: string[] = [];
  if (unsweptMs > sweptWithinMs) problems.push(`No sweep has completed for ${span(unsweptMs)}.`);
  if (broken.length > 0)
    problems.push(`The keys of some clients are broken: ${broken.slice(0, maxNamed).join(', ')}.`);
  if (late[0] !== undefined) {
    const { endpoint, clientToken } = late[0];
    const long = `for ${span(endpoint.overdueMs)} (${clientToken})`;
    const are = count(late.length, 'client is', 'clients are');
    problems.push(`${are} owed something that could be sent and is not, ${long}.`);
  }
  return problems;
}

/** Names the workflows whose tasks fail, mostly after a change of the release. */
async function describeFailedTasks(operator: Operator): Promise<string[]> {
  const ids = await operator.db().then(readFailedTasks);
  if (ids.length === 0) return [];
  const temporal = await operator.temporal();
  const { explainTasks } = await import('../temporal/failingWorkflows.js');
  const until = Date.now() + temporalWithinMs;
  const found = await temporal.connection.withDeadline(until, () =>
    Promise.all(
      ids.slice(0, maxNamed).map(async (id) => ({ id, why: await explainTasks(temporal, id).catch(ignore) })),
    ),
  );
  const [first, ...others] = found.filter(({ why }) => why !== undefined);
  if (first === undefined) return [];
  const tasks = `Tasks of ${count(others.length + 1, 'workflow')} fail, such as ${first.id}`;
  return [`${tasks}: ${first.why?.replace(/\.$/, '')}.`];
}

/**
 * Says what the service failed to do lately. One call in a hundred may fail, such as at the end of a process. An attempt that could not be
 * made leaves nothing late and no endpoint failing.
 */
function describeFailures({ total = 0, failed = 0, starts: _, ...own }: Record<string, number>): string[] {
  const lately = `of the last ${minutesRead} minutes`;
  const share = `${Math.ceil((failed / total) * 100)} % of the calls ${lately}`;
  const says = failed * 100 > total ? [`${share} failed by us (${failed} of ${total} with 500 or 503).`] : [];
  if (own.outside) says.push(`Nothing outside was reached during some ${lately}.`);
  const causes = Object.entries(own).filter(([cause]) => !cause.includes(':'));
  const named = causes.map(([cause, times]) => `${cause}: ${times}`).join(', ');
  if (causes.length > 0) says.push(`Attempts ${lately} could not be made (${named}).`);
  return says;
}

/** `us`: the service fails to do something that it could do; `them`: only receivers prevent deliveries. */
function judge(ours: string, clients: readonly ClientStatus[], failed: number) {
  const lost = failed === 0 ? '' : `${count(failed, 'video was', 'videos were')} given up.`;
  const told = <V extends string>(verdict: V, tone: 'good' | 'warn' | 'bad', lead: string, text: string) => {
    return { verdict, because: text, heading: { tone, lead, text } };
  };
  if (ours !== '') return told('us', 'bad', 'It is us.', joined(ours, lost));
  const theirs = say(clients, true);
  if (theirs !== '') return told('them', 'warn', 'It is them.', joined(`Endpoints: ${theirs}.`, lost));
  const others = say(clients, false);
  const waiting = others && `Clients: ${others}.`;
  const calm = 'Nothing is overdue and no endpoint is failing.';
  if (lost === '') return told('fine', 'good', 'All is well.', joined(calm, waiting));
  const lead = `Nothing is overdue; ${lost}`;
  return { ...told('fine', 'warn', lead, waiting), because: joined(lead, waiting) };
}

const joined = (...sentences: readonly string[]): string => sentences.filter(Boolean).join(' ');

/** `2 failing (owed 31), 1 no url (owed 4)`; what was given up is said beside it. @param isTheirs of the situations that receivers cause, else of the others */
function say(clients: readonly ClientStatus[], isTheirs: boolean): string {
  const said = situations.flatMap((situation) => {
    const isMeant = (situationTable[situation].isTheirs ?? false) === isTheirs;
    const among = clients.filter((client) => client.situation === situation);
    if (!isMeant || among.length === 0 || situation === 'clear' || situation === 'failed') return [];
    return `${among.length} ${situation.replace('_', ' ')} (owed ${totalOwed(among)})`;
  });
  return said.join(', ');
}

const totalOwed = (clients: readonly ClientStatus[]): number =>
  clients.reduce((sum, { endpoint }) => sum + endpoint.owed, 0);

function present({ clientToken, endpoint, situation, todo, ...client }: ClientStatus) {
  return {
    client_token: clientToken,
    name: client.name,
    account_id: client.accountId,
    state: endpoint.state,
    situation,
    do: todo,
    owed: endpoint.owed,
    owed_since: presentTime(endpoint.owedSince),
    failed: endpoint.failed,
    failed_since: presentTime(endpoint.failedSince),
    overdue_seconds: situation === 'late' ? Math.round(endpoint.overdueMs / 1000) : 0,
    next_attempt_at: presentTime(endpoint.nextAttemptAt),
    failures: endpoint.failures,
    last_error: endpoint.lastError ?? null,
    last_detail: endpoint.lastDetail ?? null,
    last_status: endpoint.lastStatus ?? null,
    last_success_at: presentTime(endpoint.lastSuccessAt),
  };
}

const away = (atMs: number | undefined) => atMs && distance(atMs);

export const cutInWords = (shown: number, of: number): string[] =>
  shown < of ? [`The worst ${shown} of ${of} are shown.`] : [];

/** @param of how many are amiss */
function worstTable(worst: readonly ClientStatus[], of: number): Part[] {
  const head = ['WORST', 'SITUATION', 'OWED', 'FAILED', 'SINCE', 'NEXT', 'FAILURES', 'LAST ERROR', 'DO'];
  const rows = worst.map(({ clientToken, situation, endpoint, todo }) => [
    clientToken,
    situation.replace('_', ' '),
    endpoint.owed,
    endpoint.failed,
    away(endpoint.owedSince ?? endpoint.failedSince),
    away(endpoint.nextAttemptAt),
    endpoint.failures,
    [endpoint.lastError, endpoint.lastDetail, endpoint.lastStatus].filter(Boolean).join(' '),
    todo,
  ]);
  return rows.length === 0 ? [] : [{ head, rows, none: '' }, ...cutInWords(rows.length, of)];
}
