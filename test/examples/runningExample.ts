import { spawn } from 'node:child_process';
import { freePort } from '../../local/ports.js';
import { until } from '../delivery/harness.js';
import type { Example } from './examples.js';

export interface RunningExample {
  url: string;
  /** The assets it has worked on, in order; those of a test event never are. */
  worked(assets: string[]): string[];
  said(): string;
  stop(): Promise<void>;
}

/** @param secrets what it checks signatures with */
export async function startExample(example: Example, secrets: string[]): Promise<RunningExample> {
  const port = await freePort();
  const { command, args, cwd } = await example.prepare(port);
  const { PATH, HOME } = process.env;
  const child = spawn(command, args, {
    cwd,
    env: { PATH, HOME, PORT: String(port), SIGNING_SECRETS: secrets.join(' ') },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
  }
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const url = `http://127.0.0.1:${port}/notifications`;
  await until(`examples/${example.name} answers`, async () => {
    if (child.exitCode !== null) throw new Error(`it ended: ${said}`);
    return (await fetch(url, { method: 'POST', body: '{}' }).catch(() => undefined))?.status === 401;
  });
  return {
    url,
    worked: (assets) =>
      said
        .split('\n')
        .filter((line) => line.includes('updated:'))
        .flatMap((line) => assets.filter((asset) => line.includes(asset))),
    said: () => said,
    stop() {
      child.kill('SIGTERM');
      return ended;
    },
  };
}
