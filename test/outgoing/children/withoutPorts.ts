/** Posts three times at once to a silent receiver, from a network that has two ports for connections. */
import { createServer } from 'node:net';
import { createSender } from '../../../src/outgoing/post.js';
import { loopbackPolicy } from '../rawReceiver.js';

const port = 9_000;
const server = createServer();
await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
const sender = createSender({ policy: loopbackPolicy, timeoutMs: 20_000 });
const posts = [1, 2, 3].map(() =>
  sender.post({ url: `http://127.0.0.1:${port}/`, client: 'SITE0042', headers: {}, body: '{}' }),
);
process.stdout.write(JSON.stringify(await Promise.race(posts)));
process.exit();
