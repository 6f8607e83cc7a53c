import { setTimeout as sleep } from 'node:timers/promises';
import { endProcess, isSameProcess } from '../../src/operator/running/processMark.js';
import { readLeftBehind, readRunStateIn, removeRunState } from '../../src/operator/running/runState.js';
import { stackDir } from './folders.js';
import { stopOrder } from './parts.js';

/**
 * Ends the supervisor, which ends its parts in order. If the supervisor was killed, ends the processes that it left running.
 * A process that only has the pid of one of these is left alone. @throws Error if they do not end
 */
export async function down(): Promise<void> {
  const dir = stackDir();
  const state = readRunStateIn(dir);
  const left = readLeftBehind(dir);
  if (!state && left.length === 0) {
    console.log('the stack does not run');
    return;
  }
  if (state) {
    console.log(
      `ending the supervisor (process ${state.supervisor.pid}) and ${state.children.length} processes`,
    );
    process.kill(state.supervisor.pid, 'SIGTERM');
    const longestMs = stopOrder.reduce((sum, { graceMs }) => sum + graceMs, 0);
    const end = Date.now() + longestMs;
    while (isSameProcess(state.supervisor) && Date.now() < end) await sleep(50);
    if (isSameProcess(state.supervisor)) await endProcess(state.supervisor, 0);
  }
  // Includes processes that the supervisor could not end in its time.
  const others = state ? state.children.filter(isSameProcess) : left;
  if (others.length > 0) console.log(`ending ${others.length} processes that an earlier start left behind`);
  for (const { name, graceMs } of stopOrder) {
    const mark = others.find((one) => one.name === name);
    if (mark) await endProcess(mark, graceMs);
  }
  removeRunState(dir);
  console.log('down; its data is kept');
}
