import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

/**
 * Runs a module of this folder and returns what it prints as JSON.
 * @param shell is run before it in the same shell, such as `ulimit -n 100`
 * @param within a command that runs the shell, such as `unshare -n`
 */
export function runChild<T>(module: string, shell: string, within: readonly string[] = []): T {
  const script = `${shell} && exec "$0" --import tsx "$1"`;
  const [command = 'sh', ...args] = [...within, 'sh', '-c', script, process.execPath, pathOf(module)];
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8', timeout: 50_000 });
  if (status !== 0) throw new Error(`${module} ended with ${status}: ${stderr}`);
  return JSON.parse(stdout) as T;
}

/** Whether commands can be run in a network of their own, with nothing but a loopback interface. */
export function canIsolateNetwork(): boolean {
  return spawnSync('unshare', ['-n', 'sh', '-c', isolated]).status === 0;
}

/** Brings up the loopback interface of a network of its own, and gives it two ports for connections. */
export const isolated = 'ip link set lo up && echo "40000 40001" > /proc/sys/net/ipv4/ip_local_port_range';

function pathOf(module: string): string {
  return join(import.meta.dirname, module);
}
