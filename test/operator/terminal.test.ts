import assert from 'node:assert/strict';
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

  describe('colours', () => {
    it('appear in answers and in help', async () => {
      const [doctor, help] = await Promise.all([
        runAtTerminal(cli, ['doctor']),
        runAtTerminal(cli, ['--help']),
      ]);
      assert.ok(doctor.shown.includes(`${green}ok`), JSON.stringify(doctor.shown));
      assert.match(help.shown, anyColour);
    });

    it('do not appear with NO_COLOR', async () => {
      const env = { NO_COLOR: '1' };
      const [doctor, help] = await Promise.all([
        runAtTerminal(cli, ['doctor'], { env }),
        runAtTerminal(cli, ['--help'], { env }),
      ]);
      assert.doesNotMatch(doctor.shown, anyColour);
      assert.doesNotMatch(help.shown, anyColour);
    });

    it('do not appear without a terminal', async () => {
      for (const args of [['doctor'], ['--help'], ['status']]) {
        assert.doesNotMatch((await cli.run(args)).stdout, anyColour);
      }
    });
  });
});
