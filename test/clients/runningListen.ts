/** Runs clients/listen as a separate process, from the file that its `bin` names. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Program, startProgram } from '../program.js';

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

export interface Listen extends Program {
  url: string;
  /** The requests that `--json` has printed. */
  seen(): Seen[];
}

export const start = (args: readonly string[], env: NodeJS.ProcessEnv = {}): Program =>
  startProgram(process.execPath, [bin, ...args], { env });

/** Starts it on a free port. */
export async function startListen(args: readonly string[], secrets: string): Promise<Listen> {
  const program = start(['--port', '0', ...args], { SIGNING_SECRETS: secrets });
  const urlOf = () => /Listening at (\S+),/.exec(program.stderr)?.[1] ?? '';
  await program.until('it listens', async () => urlOf());
  return Object.assign(program, {
    url: urlOf(),
    seen: () =>
      program.stdout
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as Seen),
  });
}
