import { freePort } from '../../local/ports.js';
import { type Program, startProgram } from '../program.js';
import type { Example } from './examples.js';

export interface RunningExample extends Program {
  url: string;
  /** The assets it has worked on, in order; those of a test event never are. */
  worked(assets: string[]): string[];
}

/** @param secrets what it checks signatures with */
export async function startExample(example: Example, secrets: string[]): Promise<RunningExample> {
  const port = await freePort();
  const { command, args, cwd } = await example.prepare(port);
  const env = { HOME: process.env.HOME, PORT: String(port), SIGNING_SECRETS: secrets.join(' ') };
  const program = startProgram(command, args, { cwd, env });
  const url = `http://127.0.0.1:${port}/notifications`;
  await program.until(
    `examples/${example.name} answers`,
    async () => (await fetch(url, { method: 'POST', body: '{}' })).status === 401,
  );
  return Object.assign(program, {
    url,
    worked: (assets: string[]) =>
      program
        .said()
        .split('\n')
        .filter((line) => line.includes('updated:'))
        .flatMap((line) => assets.filter((asset) => line.includes(asset))),
  });
}
