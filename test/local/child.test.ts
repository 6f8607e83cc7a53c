import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { startChild, waitUntilReady } from '../../local/child.js';
import { afterTest, newFolder } from '../servers.js';

it('a server that says that it loads is waited for; one that is silent, for no longer than is given', async () => {
  const logFile = join(await newFolder(), 'child.log');
  const child = await startChild({ name: 'server', command: 'sleep', args: ['60'], logFile });
  afterTest(() => child.stop());
  const loadedAt = Date.now() + 300;
  await waitUntilReady(child, async () => Date.now() > loadedAt || 'loading', 100);
  await assert.rejects(
    waitUntilReady(child, async () => false, 100),
    /server was not ready after 0.1 s/,
  );
});

it('a child that does not end has the time that it was given, and is then killed', async () => {
  const logFile = join(await newFolder(), 'child.log');
  const stubborn = ['-c', 'trap "" TERM; echo up; while :; do sleep 0.1; done'];
  const options = { name: 'stubborn', command: 'sh', args: stubborn, logFile, graceMs: 700 };
  const child = await startChild(options);
  await waitUntilReady(child, async () => readFileSync(logFile, 'utf8') !== '', 5000);
  const from = Date.now();
  await child.stop();
  const tookMs = Date.now() - from;
  assert.equal(child.ended, 'killed by SIGKILL');
  assert.ok(tookMs >= 690 && tookMs < 5000, `${tookMs} ms`);
});
