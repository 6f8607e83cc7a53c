import { mkdirSync } from 'node:fs';
import { endProcess, isSameProcess, markProcess } from '../src/operator/running/processMark.js';
import { claimRunState, type RunState } from '../src/operator/running/runState.js';

/**
 * Becomes the one supervisor of a data folder, after ending processes that an earlier one left running.
 * @throws Error naming the one that already runs
 */
export async function claimFolder(dir: string, say: (line: string) => void): Promise<RunState> {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const supervisor = markProcess(process.pid);
  if (!supervisor) throw new Error('processes cannot be listed on this system (/proc or ps is needed)');
  const claimed = claimRunState(dir, { supervisor, children: [] });
  if (claimed.kind === 'running') {
    const { supervisor: other, apiUrl } = claimed.state;
    throw new Error(
      `it already runs for ${dir}: process ${other.pid}${apiUrl ? `, ${apiUrl}` : ''}; stop that first`,
    );
  }
  const left = claimed.leftBehind.filter(isSameProcess);
  if (left.length > 0) say(`ending ${left.length} processes that an earlier start left behind`);
  await Promise.all(left.map((mark) => endProcess(mark, 10_000)));
  return { supervisor, children: [] };
}
