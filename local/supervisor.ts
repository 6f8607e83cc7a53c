import { mkdirSync } from 'node:fs';
import { type Child, failureOf } from './child.js';
import { isSameProcess, markProcess } from './processMark.js';
import { claimRunState, endProcess, type RunState, removeRunState, writeRunState } from './runState.js';

/** The order in which children are ended: the service settles POSTs in flight in the other two. */
const stopOrder = ['service', 'temporal', 'redis'];

/** Knows every child, and ends all of them in order when one ends or the supervisor is told to stop. */
export class Supervisor {
  readonly #children = new Map<string, Child>();
  #isReplacing = false;
  #stopping: Promise<void> | undefined;

  constructor(
    private readonly dir: string,
    readonly state: RunState,
    /** True: the servers outlive the service, which starts again at the next change of the code. */
    private readonly isWatching: boolean,
  ) {}

  get isStopping(): boolean {
    return this.#stopping !== undefined;
  }

  readonly adopt = (child: Child): void => {
    this.#children.set(child.name, child);
    const mark = markProcess(child.pid);
    this.state.children = this.state.children.filter(({ name }) => name !== child.name);
    if (mark) this.state.children.push({ ...mark, name: child.name });
    this.save();
    void child.exited.then((how) => {
      if (this.#stopping || (this.#isReplacing && child.name === 'service')) return;
      const reason = failureOf(child, `ended: ${how}`);
      if (this.isWatching && child.name === 'service') console.error(reason);
      else void this.stop(reason, 1);
    });
    if (this.#stopping) void child.stop();
  };

  /** Ends the service, then starts a new one. @throws errors of `start`: then no service runs */
  async replaceService(start: () => Promise<void>): Promise<void> {
    this.#isReplacing = true;
    try {
      await this.#end('service');
      if (!this.#stopping) await start();
    } finally {
      this.#isReplacing = false;
    }
  }

  save(): void {
    writeRunState(this.dir, this.state);
  }

  /** Ends the process: 0 if the stop was asked for, 1 after a failure. */
  stop(reason: string, status: 0 | 1): Promise<void> {
    this.#stopping ??= this.#stopAll(reason, status);
    return this.#stopping;
  }

  /** Kills every child without waiting, for a second Ctrl-C. */
  kill(): void {
    for (const child of this.#children.values())
      if (child.ended === undefined) process.kill(child.pid, 'SIGKILL');
  }

  async #stopAll(reason: string, status: 0 | 1): Promise<void> {
    (status === 0 ? console.log : console.error)(`\nstopping: ${reason}`);
    for (const name of stopOrder) await this.#end(name);
    removeRunState(this.dir);
    console.log('stopped');
    // The reason once more: the end of a log and the stops stand between.
    if (status === 1)
      console.error(`\n${reason.split('\n')[0]}\nThe data in ${this.dir} is kept for the next "npm start".`);
    process.exit(status);
  }

  async #end(name: string): Promise<void> {
    const child = this.#children.get(name);
    if (!child || child.ended !== undefined) return;
    await child.stop();
    console.log(`  ${name} ${child.ended === 'killed by SIGKILL' ? 'had to be killed' : 'stopped'}`);
  }
}

/** Stops every child in order at the first signal; kills them at the second. */
export function stopOnSignals(supervisor: Supervisor): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      if (supervisor.isStopping) supervisor.kill();
      else void supervisor.stop(signal, 0);
    });
  }
  process.on('uncaughtException', (err) => void supervisor.stop(String(err.stack), 1));
}

/**
 * Becomes the one supervisor of a data folder, after ending processes that an earlier supervisor left running.
 * @param graceMs how long each of these may take to end before it is killed
 * @throws Error naming the supervisor that already runs
 */
export async function claimFolder(
  dir: string,
  graceMs: number,
  say: (line: string) => void,
): Promise<RunState> {
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
  if (left.length > 0)
    say(`ending what an earlier start left behind: process ${left.map(({ pid }) => pid).join(', ')}`);
  await Promise.all(left.map((mark) => endProcess(mark, graceMs)));
  return { supervisor, children: [] };
}
