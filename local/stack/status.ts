import { isSameProcess } from '../../src/operator/running/processMark.js';
import { type RunState, readLeftBehind, readRunStateIn } from '../../src/operator/running/runState.js';
import { table } from '../../src/operator/terminal/table.js';
import { answersOk } from '../answersOk.js';
import { answersPing } from '../redis.js';
import { answersForWorkflows } from '../temporal.js';
import { stackDir } from './folders.js';
import type { PartName } from './ports.js';
import { takesConnections } from './postgresql.js';
import { findPostgresql } from './programs.js';
import { isFollowing } from './withRedis.js';

interface PartStatus {
  name: string;
  pid: number | null;
  port: number | null;
  health: 'ok' | 'away' | 'ended';
  note?: string;
}

const names: readonly PartName[] = [
  'balancer',
  'service-1',
  'service-2',
  'temporal',
  'postgresql',
  'redis',
  'replica',
  'prometheus',
];

/** Prints each process with its port, health and pid. @returns true if all are healthy */
export async function status(asJson: boolean): Promise<boolean> {
  const state = readRunStateIn(stackDir());
  const parts = state ? await Promise.all(shownParts(state).map((name) => look(state, name))) : [];
  const left = readLeftBehind(stackDir());
  const areAllWell = parts.length > 0 && parts.every(({ health }) => health === 'ok');
  if (asJson) {
    const supervisor = state && { pid: state.supervisor.pid };
    console.log(
      JSON.stringify({ running: Boolean(state), supervisor, api: state?.apiUrl, parts, left }, null, 2),
    );
    return areAllWell;
  }
  if (!state) {
    console.log('the stack does not run');
    if (left.length > 0)
      console.log(
        `${left.length} processes of an earlier start still run; stop them with npm run stack -- down`,
      );
    return false;
  }
  const rows = parts.map(({ name, port, health, pid, note }) => [name, port, health, pid, note]);
  console.log(table(['part', 'port', 'health', 'pid', ''], rows, 'no process runs yet'));
  console.log(
    `\nsupervisor ${state.supervisor.pid}, API ${state.apiUrl ?? '(not started yet)'}, ${stackDir()}`,
  );
  return areAllWell;
}

/** Names the parts to show: Prometheus only if it was started. */
function shownParts({ children, ports }: RunState): PartName[] {
  if (!ports) return [];
  return names.filter((name) => name !== 'prometheus' || children.some((child) => child.name === name));
}

async function look({ children, ports }: RunState, name: PartName): Promise<PartStatus> {
  const mark = children.find((child) => child.name === name);
  const port = ports?.[name] ?? 0;
  if (!mark || !isSameProcess(mark)) return { name, pid: null, port, health: 'ended' };
  const found: PartStatus = {
    name,
    pid: mark.pid,
    port,
    health: (await isWell(name, port, ports)) ? 'ok' : 'away',
  };
  if (name === 'replica' && found.health === 'ok' && !(await isFollowing(port))) {
    return { ...found, health: 'away', note: 'does not follow redis' };
  }
  return found;
}

async function isWell(name: PartName, port: number, ports: RunState['ports']): Promise<boolean> {
  switch (name) {
    case 'redis':
    case 'replica':
      return answersPing(port);
    case 'postgresql':
      return takesConnections(findPostgresql() ?? '', port);
    case 'temporal':
      return answersForWorkflows(port, process.env.TEMPORAL_NAMESPACE || 'default');
    case 'service-1':
    case 'service-2':
      return answersOk(`http://127.0.0.1:${port}/readyz`);
    case 'balancer':
      return answersOk(`http://127.0.0.1:${ports?.['balancer-health']}/`);
    case 'prometheus':
      return answersOk(`http://127.0.0.1:${port}/-/ready`);
  }
}
