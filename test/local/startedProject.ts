import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../local/ports.js';
import { isSameProcess, type ProcessMark } from '../../local/processMark.js';
import type { RunState } from '../../local/runState.js';
import { projectDir } from '../../src/operator/npmStart.js';

const ready = /Ctrl-C stops all of it/;

/** One `npm start`, or `npm run dev`, with a data folder of its own, as a second clone would have. */
export class StartedProject {
  output = '';
  #process: ChildProcess | undefined;
  #seen: ProcessMark[] = [];

  constructor(
    readonly dir: string,
    readonly port: number,
    private readonly task: 'start' | 'dev' = 'start',
    private readonly ports: NodeJS.ProcessEnv = {},
  ) {}

  /** With ports of its own, because another test may be about to start on the usual ones. */
  static async inNewFolder(task?: 'dev'): Promise<StartedProject> {
    const ports: NodeJS.ProcessEnv = {};
    for (const name of ['ADMIN_PORT', 'REDIS_PORT', 'TEMPORAL_PORT', 'TEMPORAL_UI_PORT'])
      ports[name] = String(await freePort());
    return new StartedProject(await newFolder(), await freePort(), task, ports);
  }

  static async onUsualPorts(): Promise<StartedProject> {
    return new StartedProject(await newFolder(), await freePort());
  }

  /** @throws with everything it said, when it ends before it is ready */
  async start(): Promise<RunState> {
    const ended = await Promise.race([this.launch(), this.said(ready)]);
    if (typeof ended === 'number') throw new Error(`npm start ended with ${ended}:\n${this.output}`);
    const state = this.state();
    this.#seen.push(state.supervisor, ...state.children);
    return state;
  }

  /** Starts it and resolves with its exit status once it has ended. */
  async launch(): Promise<number> {
    this.output = '';
    const { REDIS_URL, TEMPORAL_ADDRESS, ...env } = process.env;
    const child = spawn(process.execPath, [join(projectDir, 'local/launch.mjs'), this.task], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...env, ...this.ports, DATA_DIR: this.dir, PORT: String(this.port), LOG_LEVEL: 'info' },
    });
    this.#process = child;
    const hear = (data: Buffer) => {
      this.output += data;
      child.emit('heard');
    };
    child.stdout.on('data', hear);
    child.stderr.on('data', hear);
    const [code] = await once(child, 'close');
    return code ?? -1;
  }

  state(): RunState {
    return JSON.parse(readFileSync(join(this.dir, 'run.json'), 'utf8'));
  }

  /** @returns the exit status */
  async signal(signal: NodeJS.Signals): Promise<number> {
    const child = this.#process;
    if (!child) throw new Error('not started');
    const closed = once(child, 'close');
    child.kill(signal);
    const [code] = await closed;
    return code ?? -1;
  }

  async ended(): Promise<number> {
    const child = this.#process;
    if (!child) throw new Error('not started');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'close');
    return child.exitCode ?? -1;
  }

  /** Of every process of every start so far. */
  stillRunning(): ProcessMark[] {
    return this.#seen.filter(isSameProcess);
  }

  async remove(): Promise<void> {
    if (this.#process?.exitCode === null && this.#process.signalCode === null) await this.signal('SIGTERM');
    await rm(this.dir, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 });
  }

  /** Resolves once the output of this start matches. */
  async said(pattern: RegExp): Promise<undefined> {
    while (!pattern.test(this.output)) {
      if (this.#process) await once(this.#process, 'heard');
    }
  }
}

function newFolder(): Promise<string> {
  return mkdtemp(join(tmpdir(), 'asset-update-start-'));
}
