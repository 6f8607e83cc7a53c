import assert from 'node:assert/strict';
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
