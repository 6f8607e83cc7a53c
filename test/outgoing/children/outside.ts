/**
 * Posts to receivers of three networks, which go silent one after another, as behind a firewall that drops every packet: one sender
 * for each argument, which says of how many accounts they are: 0 while the store cannot say it.
 */
import { spawnSync } from 'node:child_process';
import { createSender } from '../../../src/outgoing/post.js';
import { Reach } from '../../../src/outgoing/reach.js';
import { startRawReceiver } from '../rawReceiver.js';

const addresses = ['198.51.100.7', '203.0.113.7', '192.0.2.7'];
const answer = (s: { write(text: string): unknown }) => s.write('HTTP/1.1 204 No Content\r\n\r\n');
const { port } = await startRawReceiver({ answer, host: '0.0.0.0' });
const policy = { allowHttp: true, allowedCidrs: addresses.map((one) => `${one}/32`), ownPorts: [] };
const senders = process.argv.slice(2).map((accounts) => {
  const accountOf = async (client: string) => {
    if (accounts === '0') throw new Error('away');
    return String(Math.min(Number(client), Number(accounts) - 1));
  };
  return createSender({ policy, timeoutMs: 1500, reach: new Reach(accountOf) });
});
const change = (how: 'add' | 'del', i: number) =>
  spawnSync('ip', ['addr', how, `${addresses[i]}/32`, 'dev', 'lo']);
const results: unknown[][] = senders.map(() => []);
const postAll = () =>
  Promise.all(
    senders.map(async (sender, n) => {
      const posts = addresses.map(async (address, i) => {
        const url = `http://${address}:${port}/`;
        const { ok, ours } = await sender.post({ url, client: String(i), headers: {}, body: '{}' });
        return ok || (ours ?? 'theirs');
      });
      results[n]?.push(await Promise.all(posts));
    }),
  );

for (const i of [0, 1, 2]) change('add', i);
await postAll();
for (const i of [0, 1, 2]) {
  change('del', i);
  await postAll();
}
change('add', 2);
await postAll();
process.stdout.write(JSON.stringify(results));
process.exit();
