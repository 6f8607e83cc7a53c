import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Child, startChild, waitUntilReady } from '../../local/child.js';
import { freePort } from '../../local/ports.js';
import { startRedis } from '../../local/redis.js';
import type { Pids } from '../processUsage.js';

/** The processes of a contestant by name. Each is started again a second after its end, as a supervisor would. */
export class Parts {
  readonly #children = new Map<string, Child>();
  readonly #restarts: Promise<void>[] = [];
  #isEnding = false;
  /** Starts after an end, of all parts together. */
  restarted = 0;
  beforeEnd?: () => Promise<void>;

  constructor(readonly dir: string) {}

  run = async (name: string, start: () => Promise<Child>): Promise<Child> => {
    const child = await start();
    this.#children.set(name, child);
    void child.exited.then(() => {
      if (!this.#isEnding) this.#restarts.push(this.#restart(name, start));
    });
    return child;
  };

  async #restart(name: string, start: () => Promise<Child>): Promise<void> {
    this.restarted++;
    let child: Child | undefined;
    while (!child) {
      await sleep(1000);
      if (this.#isEnding) return;
      // A server that it needs may not be back yet.
      child = await this.run(name, start).catch(() => undefined);
    }
  }

  pids(): Pids {
    return Object.fromEntries([...this.#children].map(([name, child]) => [name, child.pid]));
  }

  /** Ends a part as a crash does. */
  kill(name: string): void {
    const child = this.#children.get(name);
    if (child) process.kill(child.pid, 'SIGKILL');
  }

  async stop(): Promise<void> {
    this.#isEnding = true;
    await this.beforeEnd?.();
    await Promise.all(this.#restarts);
    for (const child of [...this.#children.values()].reverse()) await child.stop();
  }

  /** Starts a program, and returns once `isReady` holds. */
  async program(name: string, argv: readonly string[], isReady: () => Promise<boolean>, own = {}) {
    const [command = '', ...args] = argv;
    const logFile = join(this.dir, `${name}.log`);
    const env = { ...process.env, ...own };
    await this.run(name, async () => {
      const child = await startChild({ name, command, args, logFile, env, cwd: this.dir });
      await waitUntilReady(child, isReady, 60_000);
      void this.#watch(child, isReady);
      return child;
    });
  }

  /** Kills a process whose health check fails three times, 5 s apart, as an orchestrator does. */
  async #watch(child: Child, isHealthy: () => Promise<boolean>): Promise<void> {
    for (let failed = 0; child.ended === undefined && failed < 3; ) {
      await sleep(5000, undefined, { ref: false });
      failed = (await isHealthy()) ? 0 : failed + 1;
    }
    if (child.ended === undefined && !this.#isEnding) process.kill(child.pid, 'SIGKILL');
  }

  /** Starts a Redis that syncs its file every second, as the peers document. Returns its port. */
  async redis(): Promise<number> {
    const port = await freePort();
    const options = { dir: join(this.dir, 'redis'), port, args: ['--appendfsync', 'everysec'] };
    await this.run('redis', async () => (await startRedis(options)).child);
    return port;
  }

  /** Starts a PostgreSQL with its defaults: each commit is synced. Returns its port. */
  async postgres(): Promise<number> {
    const port = await freePort();
    const data = join(this.dir, 'postgres');
    mkdirSync(data);
    // PostgreSQL refuses to run as root.
    const isRoot = process.getuid?.() === 0;
    if (isRoot) execFileSync('chown', ['postgres:', this.dir, data]);
    const as = isRoot ? ['setpriv', '--reuid=postgres', '--regid=postgres', '--clear-groups'] : [];
    const [command = '', ...args] = [...as, 'initdb', '-D', data, '-U', 'contest', '-A', 'trust'];
    execFileSync(command, args, { cwd: this.dir, stdio: 'pipe' });
    const flags = ['-D', data, '-p', String(port), '-k', data, '-c', 'listen_addresses=127.0.0.1'];
    await this.program('postgres', [...as, 'postgres', ...flags], () => accepts(port));
    return port;
  }

  /** Starts a RabbitMQ with a name server of its own. Returns its port. */
  async rabbitmq(): Promise<number> {
    const [port, epmd, distribution] = [await freePort(), await freePort(), await freePort()];
    const home = join(this.dir, 'rabbitmq');
    mkdirSync(home);
    writeFileSync(join(home, 'plugins'), '[].');
    await this.program('epmd', ['epmd', '-address', '127.0.0.1', '-port', String(epmd)], () => accepts(epmd));
    // Debian's command changes the user; the server's own does not, and as for systemd no shell stands before it.
    const own = '/usr/lib/rabbitmq/bin/rabbitmq-server';
    await this.program('rabbitmq', [existsSync(own) ? own : 'rabbitmq-server'], () => accepts(port), {
      HOME: home,
      RUNNING_UNDER_SYSTEMD: 'true',
      ERL_EPMD_PORT: String(epmd),
      RABBITMQ_NODENAME: 'contest@localhost',
      RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
      RABBITMQ_NODE_PORT: String(port),
      RABBITMQ_DIST_PORT: String(distribution),
      RABBITMQ_MNESIA_BASE: join(home, 'data'),
      RABBITMQ_LOG_BASE: home,
      RABBITMQ_ENABLED_PLUGINS_FILE: join(home, 'plugins'),
    });
    return port;
  }
}

const accepts = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' }, () => resolve(true)).once('connect', () =>
      socket.end(),
    );
    socket.once('error', () => resolve(false));
  });
