/** Posts to each URL of its arguments, with a short time: its network may have no route, or the parent may stop this process. */
import { createSender } from '../../../src/outgoing/post.js';
import { certificate, loopbackPolicy } from '../rawReceiver.js';

const allowedCidrs = [...loopbackPolicy.allowedCidrs, '198.51.100.0/24', '2001:db8::/32'];
const policy = { ...loopbackPolicy, allowedCidrs };
const sender = createSender({ policy, timeoutMs: 3000, ca: certificate });
const posts = process.argv
  .slice(2)
  .map((url) => sender.post({ url, client: 'SITE0042', headers: {}, body: '{}' }));
process.stdout.write(JSON.stringify(await Promise.all(posts)));
process.exit();
