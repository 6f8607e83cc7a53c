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
