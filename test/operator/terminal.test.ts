import assert from 'node:assert/strict';
import { facts, table } from '../../src/operator/terminal/table.js';
import { type Cli, openCli } from './cli.js';
import { runAtTerminal } from './terminal.js';

const ESC = '\u001b';
const green = `${ESC}[32m`;
const anyColour = new RegExp(`${ESC}\\[\\d+m`);

describe('operator at a terminal', () => {
  let cli: Cli;
  before(async () => {
    cli = await openCli();
  });
  after(() => cli.close());

  it('shows a replacement for characters that control a terminal or turn and hide text', () => {
    const hostile = ['\u001b[2J', 'a\u202egpj', 'b\u200bc', 'd\u2028e'].join('|');
    const shown = '\ufffd[2J|a\ufffdgpj|b\ufffdc|d\ufffde';
    assert.equal(facts({ name: hostile }), `name  ${shown}`);
    assert.ok(table(['head'], [[hostile]], 'none').includes(shown));
  });

  describe('colours', () => {
    it('appear in answers', async () => {
      const { shown } = await runAtTerminal(cli, ['doctor']);
      assert.ok(shown.includes(`${green}ok`), JSON.stringify(shown));
    });

    it('do not appear with NO_COLOR', async () => {
      const { shown } = await runAtTerminal(cli, ['doctor'], { env: { NO_COLOR: '1' } });
      assert.doesNotMatch(shown, anyColour);
    });

    it('do not appear without a terminal', async () => {
      for (const args of [['doctor'], ['status']]) {
        assert.doesNotMatch((await cli.run(args)).stdout, anyColour);
      }
    });
  });
});
