import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectDir } from '../../src/operator/running/projectDir.js';
import { answersOk } from '../answersOk.js';
import { type Child, startChild, waitUntilReady } from '../child.js';

export interface BalancerPorts {
  port: number;
  healthPort: number;
  /** Ports of the processes behind it. */
  services: readonly number[];
}

export interface BalancerOptions extends BalancerPorts {
  /** The folder of its configuration. */
  dir: string;
  /** Path of HAProxy. */
  program: string;
  logFile: string;
  onStart?: ((child: Child) => void) | undefined;
}

/** Starts HAProxy with the configuration of the Docker stack; resolves once a process behind it is ready. */
export async function startBalancer(options: BalancerOptions): Promise<Child> {
  const { dir, port, program, logFile, onStart } = options;
  const file = join(dir, 'haproxy.cfg');
  writeFileSync(file, balancerConfig(options));
  const child = await startChild({
    name: 'balancer',
    command: program,
    args: ['-db', '-q', '-f', file],
    logFile,
    onStart,
  });
  // Not by its own health: until the first check it takes every process for ready.
  await waitUntilReady(child, () => answersOk(`http://127.0.0.1:${port}/readyz`), 180_000);
  return child;
}

/** Returns `deploy/haproxy/haproxy.cfg` with processes of this machine instead of Docker's names. */
export function balancerConfig({ port, healthPort, services }: BalancerPorts): string {
  const servers = services.map((one, i) => `server service-${i + 1} 127.0.0.1:${one}`).join('\n    ');
  return readFileSync(join(projectDir, 'deploy/haproxy/haproxy.cfg'), 'utf8')
    .replace('maxconn 16000', 'maxconn 400')
    .replace(/^resolvers docker\n( .*\n)*/m, '')
    .replace(' resolvers docker init-addr none', '')
    .replace('bind :3000', `bind 127.0.0.1:${port}`)
    .replace('bind :8404', `bind 127.0.0.1:${healthPort}`)
    .replace(/server-template all .*/, servers)
    .replace(/ *server-template api .*\n?/, '');
}
