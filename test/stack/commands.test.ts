/** `npm run stack`: up, status and down with the servers of production. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { markProcess } from '../../src/operator/running/processMark.js';
import { runsHere } from './runsHere.mjs';
import { StartedStack } from './startedStack.js';

describe('npm run stack', function () {
  this.timeout(600_000);
  let stack: StartedStack;

  before(async function () {
    if (!runsHere()) return this.skip();
    // The first run builds Temporal's server.
    this.timeout(1_800_000);
    stack = await StartedStack.inNewFolder();
    await stack.run(['up']);
  });
  after(() => stack?.remove());

  it('up starts the servers of production, which deliver an event, and status shows the port, health and pid of each', async () => {
    const parts = await stack.parts();
    const names = ['balancer', 'service-1', 'service-2', 'temporal', 'postgresql', 'redis', 'replica'];
    assert.deepEqual(
      parts.map(({ name }) => name).filter((name) => name !== 'prometheus'),
      names,
    );
    for (const { name, pid, port, health } of parts) {
      assert.equal(health, 'ok', name);
      assert.ok(pid && port, name);
    }
    assert.equal(new Set(parts.map(({ pid }) => pid)).size, parts.length);
    const mode = async (name: string) => (await stat(join(stack.dir, name))).mode & 0o777;
    assert.deepEqual(
      await Promise.all(['run.json', 'secrets-key', 'postgresql/password'].map(mode)),
      [0o600, 0o600, 0o600],
    );
    assert.match(await stack.operator('demo'), /it matches/);
    const cast = await stack.createCast(1);
    await stack.received([await stack.publish(cast, 0, 'a-video')]);
    assert.match(await stack.run(['up']), /it already runs/);
  });

  it('has as many history shards as docker-compose.yml', async () => {
    const compose = await readFile('docker-compose.yml', 'utf8');
    const started = await readFile('local/stack/temporalServer.ts', 'utf8');
    assert.equal(/NUM_HISTORY_SHARDS: (\d+)/.exec(compose)?.[1], /historyShards = (\d+)/.exec(started)?.[1]);
  });

  it('restarts a killed part on the same port', async () => {
    const before = await stack.parts();
    for (const name of ['postgresql', 'temporal', 'service-1', 'balancer', 'redis', 'replica']) {
      const killed = before.find((part) => part.name === name);
      assert.ok(killed?.pid);
      process.kill(killed.pid, 'SIGKILL');
      await stack.until(`${name} runs again`, async () => {
        const now = (await stack.parts()).find((part) => part.name === name);
        return now?.health === 'ok' && now.pid !== killed.pid && now.port === killed.port;
      });
    }
    await stack.untilWell();
    const cast = await stack.createCast(1);
    await stack.received([await stack.publish(cast, 0, 'a-video')]);
  });

  it('down stops every part and keeps the data for the next up', async () => {
    const cast = await stack.createCast(1);
    const receiver = await stack.receiver();
    await receiver.breakOff();
    const owed = await stack.publish(cast, 0, 'owed');
    const down = await stack.run(['down']);
    assert.match(down, /down; its data is kept/);
    assert.deepEqual(stack.stillRunning(), []);
    assert.match(await stack.run(['status'], 1), /the stack does not run/);
    await receiver.open();
    await stack.run(['up']);
    await stack.received([owed]);
    assert.equal(await stack.tryToPublish(cast, 0, 'owed'), owed, 'it is known');
  });

  it('down ends the processes that a killed supervisor left running, but no other process with one of their pids', async () => {
    const { supervisor } = await stack.state();
    process.kill(supervisor.pid, 'SIGKILL');
    await stack.until('the supervisor is gone', async () => markProcess(supervisor.pid) === undefined);
    const stranger = spawn('sleep', ['600']);
    const file = join(stack.dir, 'run.json');
    const state = await stack.state();
    state.children.push({ pid: stranger.pid ?? 0, identity: 'of another process', name: 'redis' });
    await writeFile(file, JSON.stringify(state));
    await stack.run(['down']);
    assert.deepEqual(stack.stillRunning(), []);
    assert.equal(stranger.exitCode, null);
    assert.ok(markProcess(stranger.pid ?? 0), 'the stranger still runs');
    stranger.kill();
    assert.match(await stack.run(['down']), /does not run/);
  });
});
