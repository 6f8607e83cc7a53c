import { markProcess } from '../src/operator/running/processMark.js';
import { type RunState, removeRunState, writeRunState } from '../src/operator/running/runState.js';
import type { Child } from './child.js';
import { logTail } from './child.js';

/** More than the service's own forced end (25 s), see the worker's shutdown times. */
const serviceGraceMs = 40_000;

/** Knows every child, ends them in order when one of them ends or the supervisor is told to stop. */
export class Supervisor {
  readonly #children = new Map<string, Child>();
  #replacing: string | undefined;
  #stopping: Promise<void> | undefined;

  constructor(
    private readonly dir: string,
    readonly state: RunState,
    /** The child whose end leaves the others running, because it is started again. */
    private readonly replaceable?: string,
  ) {}

  get isStopping(): boolean {
    return this.#stopping !== undefined;
  }

  readonly adopt = (child: Child): void => {
    this.#children.set(child.name, child);
    const mark = markProcess(child.pid);
    if (mark) this.state.children.push(mark);
    this.save();
    void child.exited.then((how) => {
      if (this.#stopping || this.#replacing === child.name) return;
      const reason = `${child.name} ended: ${how}\n${logTail(child.logFile)}`;
      if (this.replaceable === child.name) console.error(reason);
      else void this.stop(reason, 1);
    });
    if (this.#stopping) void child.stop();
  };

  /** Ends a child, then starts another instead. @throws errors of `start`: then there is none */
  async replace(name: string, start: () => Promise<void>): Promise<void> {
    const pid = this.#children.get(name)?.pid;
    this.#replacing = name;
    try {
      await this.#end(name, serviceGraceMs);
      this.state.children = this.state.children.filter((mark) => mark.pid !== pid);
      if (!this.#stopping) await start();
    } finally {
      this.#replacing = undefined;
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

  /** For a second Ctrl-C: kills without waiting. */
  kill(): void {
    for (const child of this.#children.values())
      if (child.ended === undefined) process.kill(child.pid, 'SIGKILL');
  }

  async #stopAll(reason: string, status: 0 | 1): Promise<void> {
    (status === 0 ? console.log : console.error)(`\nstopping: ${reason}`);
    // The service first, because its POSTs in flight are settled in the other two.
    await this.#end('service', serviceGraceMs);
    await this.#end('temporal', 15_000);
    await this.#end('redis', 15_000);
    removeRunState(this.dir);
    console.log('stopped');
    process.exit(status);
  }

  async #end(name: string, graceMs: number): Promise<void> {
    const child = this.#children.get(name);
    if (!child || child.ended !== undefined) return;
    await child.stop(graceMs);
    console.log(`  ${name} ${child.ended === 'killed by SIGKILL' ? 'had to be killed' : 'stopped'}`);
  }
}
