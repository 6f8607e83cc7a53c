import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Webhook } from 'standardwebhooks';
import { recordedVectors, recordedVectorsFile, type Vector } from './vectors.js';

const text = readFileSync(recordedVectorsFile, 'utf8');
const { vectors } = JSON.parse(text) as { vectors: Vector[] };

describe('docs/reference/signature-vectors.json', () => {
  it('equals the signer’s present output (else: npx tsx test/examples/vectors.ts)', () => {
    assert.equal(text, recordedVectors());
  });

  for (const vector of vectors) {
    it(`${vector.name}: the public library ${vector.valid ? 'accepts' : 'refuses'} it`, () => {
      const body = Buffer.from(vector.body_base64, 'base64');
      assert.equal(body.toString(), vector.body);
      // The library takes any key; which keys are secrets is left to its caller.
      const secrets = vector.secrets.filter((secret) => keyOf(secret).length >= 24);
      const taken = secrets.some((secret) => isTaken(secret, body, vector));
      assert.equal(taken, vector.valid, vector.why);
    });
  }
});

const keyOf = (secret: string): Buffer => Buffer.from(secret.replace('whsec_', ''), 'base64');

/** The library knows no clock but `Date.now`. */
function isTaken(secret: string, body: Buffer, { now, headers }: Vector): boolean {
  const clock = Date.now;
  Date.now = () => now * 1000;
  try {
    new Webhook(secret).verify(body, headers);
    return true;
  } catch {
    return false;
  } finally {
    Date.now = clock;
  }
}
