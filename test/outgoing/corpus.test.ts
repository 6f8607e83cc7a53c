import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { answers } from './corpus/answers.js';
import { requestTo, useNetwork } from './rawReceiver.js';

/** Where ours differs from the majority, and why. */
const differs: Readonly<Record<string, string>> = {
  '101': 'we ask for no other protocol, and a receiver that switches has not accepted the notification',
  'empty line before the answer': 'on a kept connection it is the end of the answer before',
};

/** By answer, the status that each client (record.ts) took it for; 0 if for none. */
const recorded = JSON.parse(
  readFileSync(join(import.meta.dirname, 'corpus/recorded.json'), 'utf8'),
) as Record<string, Record<string, number>>;

describe('The status of an answer is what most of curl, Python and Go take it for', () => {
  const { start, sending } = useNetwork();

  for (const [name, answer] of Object.entries(answers))
    it(`${name}${differs[name] === undefined ? '' : `, but: ${differs[name]}`}`, async () => {
      const { url } = await start({ answer: (s) => s.end(answer, 'latin1') });
      const { status = 0 } = await sending().post(requestTo(url));
      const others = Object.values(recorded[name] ?? {});
      assert.equal(others.length, 3);
      const isWithMost = others.filter((other) => other === status).length >= 2;
      assert.equal(isWithMost, differs[name] === undefined, `${status} of ${JSON.stringify(recorded[name])}`);
    });
});
