import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '../../local/ports.js';
import { readConfig } from '../../src/config.js';
import { createLogger } from '../../src/log.js';
import { isSameProcess, type ProcessMark } from '../../src/operator/running/processMark.js';
import { projectDir } from '../../src/operator/running/projectDir.js';
import type { RunState } from '../../src/operator/running/runState.js';
import { type Db, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { type Cast, createCast } from '../faults/cast.js';
import { pause } from '../faults/pause.js';
import { createReceiver, type Receiver } from '../faults/receiver.js';

export interface Part {
  name: string;
  pid: number | null;
  port: number;
  health: 'ok' | 'away' | 'ended';
}

/** `npm run stack` with its own data folder, an account with clients, and their receiver. */
export class StartedStack {
  #seen: ProcessMark[] = [];
  #receiver: Receiver | undefined;

  private constructor(readonly dataDir: string) {}

  static async inNewFolder(): Promise<StartedStack> {
    // In the project folder, because a temporary file system may ignore a flush to disk.
    await mkdir(join(projectDir, '.data'), { recursive: true });
    return new StartedStack(await mkdtemp(join(projectDir, '.data', 'stack-test-')));
  }

  /** The folder of the stack's state. */
  get dir(): string {
    return join(this.dataDir, 'stack');
  }

  /** Runs a command of the stack. @returns its output. @throws if it ends with another status */
  async run(args: readonly string[], expectedStatus = 0): Promise<string> {
    const { status, output } = await this.call(['local/launch.mjs', 'stack', ...args]);
    if (args[0] === 'up' && status === 0) {
      const state = await this.state();
      this.#seen.push(state.supervisor, ...state.children);
    }
    assert.equal(status, expectedStatus, output);
    return output;
  }

  /** Runs a command of the operator. */
  async operator(...args: string[]): Promise<string> {
    const { status, output } = await this.call(['dist/src/operator/main.js', ...args], {
      DATA_DIR: this.dir,
    });
    assert.equal(status, 0, output);
    return output;
  }

  async state(): Promise<RunState> {
    return JSON.parse(await readFile(join(this.dir, 'run.json'), 'utf8'));
  }

  async parts(): Promise<Part[]> {
    const { output } = await this.call(['local/launch.mjs', 'stack', 'status', '--json']);
    return (JSON.parse(output) as { parts: Part[] }).parts;
  }

  async untilWell(): Promise<void> {
    await this.until('every part is healthy', async () => {
      const parts = await this.parts();
      return parts.length > 0 && parts.every(({ health }) => health === 'ok');
    });
  }

  /** Creates an account with clients, registered at the open receiver. */
  async createCast(clients: number): Promise<Cast> {
    const { apiUrl = '', environment } = await this.state();
    const box = createSecretBox(readConfig({ SECRETS_KEY: environment?.SECRETS_KEY ?? '' }).SECRETS_KEY);
    const { url } = await this.receiver();
    return this.withDb((db) => createCast(db, box, apiUrl, url, clients));
  }

  async withDb<T>(work: (db: Db) => Promise<T>): Promise<T> {
    const { redisUrl = '' } = await this.state();
    const db = openDb({ url: redisUrl, prefix: '', log: createLogger('silent', 'stack') });
    try {
      await waitForRedis(db, 10_000);
      return await work(db);
    } finally {
      db.redis.disconnect();
    }
  }

  async receiver(): Promise<Receiver> {
    if (!this.#receiver) {
      this.#receiver = createReceiver(await freePort());
      await this.#receiver.open();
    }
    return this.#receiver;
  }

  /** Publishes an event. @returns its notification's id or the reason for none if it is accepted, else the status */
  async tryToPublish(cast: Cast, client: number, asset: string): Promise<string | number> {
    const { apiUrl = '' } = await this.state();
    const response = await fetch(`${apiUrl}/enrichments`, {
      method: 'POST',
      headers: { authorization: `Bearer ${cast.platformToken}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        ...{ event_id: `event-${asset}`, client_token: cast.clientTokens[client], platform_id: asset },
        segments: ['a'],
      }),
    }).catch(() => undefined);
    if (response?.status !== 202) {
      await response?.body?.cancel();
      return response?.status ?? 0;
    }
    const answer = (await response.json()) as { notification_id?: string; reason?: string };
    return answer.notification_id ?? answer.reason ?? '';
  }

  /** Publishes an event as a publisher must: again after a 503. @throws if it is not accepted within 30 s */
  async publish(cast: Cast, client: number, asset: string): Promise<string> {
    const end = Date.now() + 30_000;
    for (;;) {
      const id = await this.tryToPublish(cast, client, asset);
      if (typeof id === 'string') return id;
      assert.ok(id === 503 && Date.now() < end, `${asset}: ${id}`);
      await pause(200);
    }
  }

  async received(ids: readonly string[]): Promise<void> {
    const { arrivals } = await this.receiver();
    const missing = () => ids.filter((id) => !arrivals.has(id));
    await this.until(
      'all have arrived',
      async () => missing().length === 0,
      () => missing().join(', '),
    );
  }

  async until(what: string, fact: () => Promise<boolean>, why = () => ''): Promise<void> {
    const end = Date.now() + 180_000;
    while (!(await fact())) {
      assert.ok(Date.now() < end, `not within 3 minutes: ${what} ${why()}`);
      await pause(100);
    }
  }

  /** Returns the processes of all starts that still run. */
  stillRunning(): ProcessMark[] {
    return this.#seen.filter(isSameProcess);
  }

  async remove(): Promise<void> {
    await this.call(['local/launch.mjs', 'stack', 'down']);
    await this.#receiver?.breakOff();
    await rm(this.dataDir, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 });
  }

  async call(
    args: readonly string[],
    env: NodeJS.ProcessEnv = {},
  ): Promise<{ status: number; output: string }> {
    const { REDIS_URL, TEMPORAL_ADDRESS, ...inherited } = process.env;
    const child = spawn(process.execPath, args, {
      cwd: projectDir,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...inherited, DATA_DIR: this.dataDir, ...quickly, ...env },
    });
    let output = '';
    child.stdout.on('data', (data) => (output += data));
    child.stderr.on('data', (data) => (output += data));
    const [status] = await once(child, 'close');
    return { status: status ?? -1, output };
  }
}

const quickly = {
  // No answered event is lost with the primary.
  REDIS_ACK_REPLICAS: '1',
  RETRY_SCHEDULE_SECONDS: '0.5,1,2,4',
  PROBE_SCHEDULE_SECONDS: '0.5,1,2',
  ATTEMPT_TIMEOUT_SECONDS: '2',
  LOG_LEVEL: 'warn',
};
