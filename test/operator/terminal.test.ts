import assert from 'node:assert/strict';
import { facts, table } from '../../src/operator/terminal/table.js';

describe('operator at a terminal', () => {
  it('shows a replacement for characters that control a terminal or turn and hide text', () => {
    const hostile = ['\u001b[2J', 'a\u202egpj', 'b\u200bc', 'd\u2028e'].join('|');
    const shown = '\ufffd[2J|a\ufffdgpj|b\ufffdc|d\ufffde';
    assert.equal(facts({ name: hostile }), `name  ${shown}`);
    assert.ok(table(['head'], [[hostile]], 'none').includes(shown));
  });
});
