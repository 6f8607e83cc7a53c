/** Posts to a public address from a network that has none but loopback. */
import { createSender } from '../../../src/outgoing/post.js';

const policy = { allowHttp: true, allowedCidrs: ['198.51.100.0/24', '2001:db8::/32'], ownPorts: [] };
const sender = createSender({ policy, timeoutMs: 20_000 });
const post = (url: string) => sender.post({ url, client: 'SITE0042', headers: {}, body: '{}' });

const results = [await post('http://198.51.100.7/'), await post('http://[2001:db8::7]/')];
process.stdout.write(JSON.stringify(results));
process.exit();
