/** Posts while the process has no file descriptor left, by address, by name and by a proxy, and again when it has. */
import { closeSync, openSync } from 'node:fs';
import { devNull } from 'node:os';
import { SystemNames } from '../../../src/outgoing/names.js';
import { createSender } from '../../../src/outgoing/post.js';
import { OutgoingProxy } from '../../../src/outgoing/proxy.js';
import { startDnsServer } from '../dnsServer.js';
import { loopbackPolicy, startRawReceiver } from '../rawReceiver.js';

const answer = (s: { write(text: string): unknown }) => s.write('HTTP/1.1 204 No Content\r\n\r\n');
const first = await startRawReceiver({ answer });
const second = await startRawReceiver({ answer });
const dns = await startDnsServer(() => ['127.0.0.1']);
const names = new SystemNames({ servers: [dns.address], hostsPath: devNull });
const sender = createSender({ policy: loopbackPolicy, timeoutMs: 20_000, names });
const proxied = createSender({
  policy: loopbackPolicy,
  timeoutMs: 20_000,
  proxy: new OutgoingProxy(`http://127.0.0.1:${first.port}`, false),
});
const post = (url: string, by = sender) => by.post({ url, client: 'SITE0042', headers: {}, body: '{}' });

// Loads what is loaded with the first request.
await post(`http://first.example:${first.port}/`);

const taken: number[] = [];
try {
  for (;;) taken.push(openSync(devNull, 'r'));
} catch (error) {
  if ((error as NodeJS.ErrnoException).code !== 'EMFILE') throw error;
}
const byAddress = await post(second.url);
const byName = await post(`http://second.example:${second.port}/`);
const byProxy = await post(second.url, proxied);
for (const descriptor of taken) closeSync(descriptor);
const afterwards = [await post(second.url), await post(`http://second.example:${second.port}/`)];

process.stdout.write(JSON.stringify({ byAddress, byName, byProxy, afterwards }));
process.exit();
