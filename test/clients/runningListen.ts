/** Runs clients/listen as a separate process, from the file that its `bin` names. */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../delivery/harness.js';

const folder = join(import.meta.dirname, '../../clients/listen');
const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
const bin = join(folder, manifest.bin);

/** One line of `--json`. */
export interface Seen {
  signature: 'good' | 'bad';
  why?: string;
  webhook_id: string | null;
  duplicate: boolean;
  age_seconds: number | null;
  client_token: string | null;
  method: string;
  path: string;
  body: string;
  answered: number | null;
  after_ms: number;
}

export interface Listen {
  url: string;
  stdout(): string;
  stderr(): string;
  /** The requests that `--json` has printed. */
  seen(): Seen[];
  /** Ends it by Ctrl-C. @returns its exit status */
  end(): Promise<number | null>;
}

export interface Started {
  stdout: string;
  stderr: string;
  ended: Promise<number | null>;
  interrupt(): void;
}

export function start(args: readonly string[], env: NodeJS.ProcessEnv = {}): Started {
  const child = spawn(process.execPath, [bin, ...args], {
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const started: Started = {
    stdout: '',
    stderr: '',
    ended: new Promise((resolve) => child.once('close', resolve)),
    interrupt: () => void child.kill('SIGINT'),
  };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      started[name] += text;
    });
  }
  return started;
}

/** Starts it on a free port. */
export async function startListen(args: readonly string[], secrets: string): Promise<Listen> {
  const started = start(['--port', '0', ...args], { SIGNING_SECRETS: secrets });
  const url = await until('it listens', () => /Listening at (\S+),/.exec(started.stderr)?.[1]);
  return {
    url,
    stdout: () => started.stdout,
    stderr: () => started.stderr,
    seen: () =>
      started.stdout
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as Seen),
    end() {
      started.interrupt();
      return started.ended;
    },
  };
}
