import assert from 'node:assert/strict';
import { excerptOf } from '../../src/outgoing/answer.js';
import { excerptBytes } from '../../src/outgoing/answerReader.js';

describe('The excerpt of an answer', () => {
  it('has no more bytes as stored than its bound, whatever the receiver answers', () => {
    for (const byte of [0x00, 0x22, 0x5c, 0x80, 0xff, 0x41]) {
      const stored = JSON.stringify(excerptOf(Buffer.alloc(4096, byte)));
      assert.ok(Buffer.byteLength(stored) - 2 <= excerptBytes, `${byte}: ${stored.length}`);
    }
  });
});
