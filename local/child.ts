/**
 * A child process that never outlives its parent.
 *
 * It leads its own process group, so that Ctrl-C reaches only the parent, which then stops its children in
 * order. A shell waits beside it with a pipe from the parent as standard input: when the parent is killed, the pipe
 * closes and the shell ends the child.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { withTimeout } from '../src/promises.js';

interface ChildOptions {
  name: string;
  command: string;
  args: readonly string[];
  /** The file to which the child's standard output and error are appended. */
  logFile: string;
  env?: NodeJS.ProcessEnv;
  cwd?: string;
  /** How long it may take to end before it is killed. */
  graceMs?: number;
  /** Called immediately, long before the child is ready. */
  onStart?: (child: Child) => void;
}

export interface Child {
  name: string;
  pid: number;
  logFile: string;
  /** Set once the child has ended: the exit status or signal in words. */
  ended: string | undefined;
  /** Resolves with `ended`; never rejects. */
  exited: Promise<string>;
  /** Sends SIGTERM, then SIGKILL after its time, or this one; resolves when the child is gone. */
  stop(graceMs?: number): Promise<void>;
}

export interface ServerOptions {
  /** Holds the server's data and log. */
  dir: string;
  /** A free one by default. */
  port?: number;
  binary?: string;
  logFile?: string;
  onStart?: (child: Child) => void;
  /** Added to the server's command line, after everything else. */
  args?: readonly string[];
}

export interface Server {
  port: number;
  pid: number;
  binary: string;
  child: Child;
  stop(): Promise<void>;
}

/** @throws Error if the program could not be started at all */
export async function startChild(options: ChildOptions): Promise<Child> {
  mkdirSync(dirname(options.logFile), { recursive: true });
  const log = openSync(options.logFile, 'a', 0o600);
  const child = spawn(options.command, options.args, {
    stdio: ['ignore', log, log],
    detached: true,
    env: options.env ?? process.env,
    cwd: options.cwd,
  });
  closeSync(log);
  const { pid } = child;
  if (pid === undefined) throw new Error(`${options.name} did not start: ${await startError(child)}`);
  const { graceMs: ownMs = 15_000 } = options;
  const watcher = watch(pid, ownMs);

  const started: Child = {
    name: options.name,
    pid,
    logFile: options.logFile,
    ended: undefined,
    exited: new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        watcher.kill('SIGKILL');
        started.ended = signal ? `killed by ${signal}` : `exit status ${code}`;
        resolve(started.ended);
      });
    }),
    async stop(graceMs = ownMs) {
      if (started.ended !== undefined) return;
      child.kill();
      const timer = setTimeout(() => child.kill('SIGKILL'), graceMs);
      await started.exited;
      clearTimeout(timer);
    },
  };
  options.onStart?.(started);
  return started;
}

type Check = () => Promise<boolean | 'loading'>;

const answerWithinMs = 3000;

/**
 * Polls until `check` holds. @throws Error with the log's end when the child ends first, or after `timeoutMs` in which it
 * neither held nor said that the child still loads
 */
export async function waitUntilReady(child: Child, check: Check, timeoutMs: number): Promise<void> {
  let end = Date.now() + timeoutMs;
  for (;;) {
    const answer = await answersInTime(child, check);
    if (answer === true) return;
    if (answer === 'loading') end = Date.now() + timeoutMs;
    if (child.ended !== undefined) throw new Error(failureOf(child, `ended: ${child.ended}`));
    if (Date.now() > end) {
      // Its end is no reason of its own for who watches it.
      void child.stop();
      throw new Error(failureOf(child, `was not ready after ${timeoutMs / 1000} s`));
    }
    await sleep(25);
  }
}

/** An answer that never arrives must not hide the end of the child or the timeout. */
async function answersInTime(child: Child, check: Check): Promise<boolean | string> {
  return await withTimeout(Promise.race([check(), child.exited]), answerWithinMs, () => false);
}

/** Returns whether a server answers a GET with success, within 2 s. */
export async function answersOk(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(2000) });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
}

/** Returns what a child did, and the end of its log. A full disk has no room for a log that says so. */
export function failureOf({ name, logFile }: Child, did: string): string {
  const { bavail, bsize } = statfsSync(dirname(logFile));
  const full = bavail * bsize < 2 ** 20 ? ', and its disk has less than 1 MiB left' : '';
  return `${name} ${did}${full}\n${logTail(logFile)}`;
}

/** Returns the last lines of a log, indented. */
export function logTail(logFile: string, lines = 15): string {
  const all = readFileSync(logFile, 'utf8')
    .trimEnd()
    .split('\n')
    .filter((line) => !line.includes('"msg":"request"'));
  return [`  ${logFile}:`, ...all.slice(-lines).map((line) => `  | ${line}`)].join('\n');
}

const watchScript = `
read -r _
kill "$1" 2>/dev/null || exit 0
left=$2
while [ "$left" -gt 0 ]; do
  sleep 1
  kill -0 "$1" 2>/dev/null || exit 0
  left=$((left - 1))
done
kill -KILL "$1"`;

function watch(pid: number, graceMs: number): ChildProcess {
  const watcher = spawn(
    '/bin/sh',
    ['-c', watchScript, 'sh', String(pid), String(Math.ceil(graceMs / 1000))],
    {
      stdio: ['pipe', 'ignore', 'ignore'],
      detached: true,
    },
  );
  watcher.on('error', () => undefined);
  watcher.stdin?.on('error', () => undefined);
  watcher.unref();
  return watcher;
}

function startError(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => child.once('error', (err) => resolve(err.message)));
}

/** Returns the arguments `--name value` of each setting. */
export const toFlags = (settings: Record<string, string | number>): string[] =>
  Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]);
