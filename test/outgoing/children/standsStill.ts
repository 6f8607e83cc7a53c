/** Posts to each URL of its arguments, with so short a time that it ends while the parent has stopped this process. */
import { createSender } from '../../../src/outgoing/post.js';
import { certificate, loopbackPolicy } from '../rawReceiver.js';

const sender = createSender({ policy: loopbackPolicy, timeoutMs: 1000, ca: certificate });
const posts = process.argv
  .slice(2)
  .map((url) => sender.post({ url, client: 'SITE0042', headers: {}, body: '{}' }));
process.stdout.write(JSON.stringify(await Promise.all(posts)));
process.exit();
