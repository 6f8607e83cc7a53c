import assert from 'node:assert/strict';
import { freePort, PortPlan } from '../../local/ports.js';

it('starts at the same moment take different ports, and say which', async () => {
  const usual = await freePort();
  const said: string[] = [];
  const starts = Array.from({ length: 8 }, () => new PortPlan((line) => said.push(line)));
  const ports = await Promise.all(starts.map((plan) => plan.preferably('PORT_OF_NOTHING', usual)));
  assert.equal(new Set(ports).size, ports.length);
  assert.deepEqual([ports.includes(usual), said.length], [true, ports.length - 1]);
});

it('of starts at the same moment that ask for one port, one has it, and the others say that it is taken', async () => {
  const port = await freePort();
  const starts = Array.from({ length: 8 }, () => new PortPlan(() => {}).exactly('PORT', port, '127.0.0.1'));
  const outcomes = await Promise.allSettled(starts);
  const refused = outcomes.filter((one) => one.status === 'rejected');
  assert.equal(refused.length, starts.length - 1);
  assert.match(String(refused[0]?.reason), new RegExp(`port ${port} is taken`));
});
