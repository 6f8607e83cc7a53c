import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newFolder } from '../servers.js';

const page = readFileSync(join(import.meta.dirname, '../../docs/guides/recovery.md'), 'utf8');
const script = /^```\n([^`]*^while PAGE=.*?)^```/ms.exec(page)?.[1] ?? '';
const update = '{"platform_id":"vid 9","updated_at":"2026-01-31T12:00:00Z"}';

const answers: [what: string, answer: string, status: number, cursor: string, work: string][] = [
  [
    'a page',
    `{"updates":[${update}],"next_cursor":"new","has_more":false}`,
    0,
    'new\n',
    'vid 9 2026-01-31T12:00:00Z\n',
  ],
  ["a proxy's page", '<html>Sign in</html>', 1, 'old\n', ''],
  ['an object of a proxy', '{"message":"ok"}', 1, 'old\n', ''],
  ['no updates', '{"next_cursor":"new","has_more":false}', 1, 'old\n', ''],
  ['nothing', '', 1, 'old\n', ''],
];

describe('The script of every night in docs/guides/recovery.md', () => {
  before(function () {
    if (spawnSync('jq', ['--version'], { stdio: 'ignore' }).status !== 0) this.skip();
  });

  for (const [what, answer, status, cursor, work] of answers)
    it(`exits ${status} where the answer is ${what}`, async () => {
      const cwd = await newFolder();
      writeFileSync(join(cwd, 'cursor'), 'old\n');
      writeFileSync(join(cwd, 'curl'), '#!/bin/sh\nprintf %s "$ANSWER"\n', { mode: 0o755 });
      writeFileSync(join(cwd, 'reconcile'), '#!/bin/sh\necho "$@" >> work\n', { mode: 0o755 });
      writeFileSync(join(cwd, 'work'), '');
      const env = { PATH: `${cwd}:${process.env.PATH}`, ANSWER: answer };
      const [code] = await once(spawn('bash', ['-c', script], { cwd, env, stdio: 'ignore' }), 'exit');
      const left = ['cursor', 'work'].map((name) => readFileSync(join(cwd, name), 'utf8'));
      assert.deepEqual([code, ...left], [status, cursor, work]);
    });
});

const monitors = readFileSync(join(import.meta.dirname, '../../docs/guides/being-told.md'), 'utf8')
  .split('```\n')
  .filter((block) => block.includes('jq '));
const ago = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString();

const watched: [what: string, answer: string, failed: number, alarms: [late: boolean, fails: boolean]][] = [
  ['good', `{"owed":0,"delivered_until":"${ago(1)}","checks":[{"verdict":"pass"}]}`, 0, [false, false]],
  ['bad', `{"owed":1,"delivered_until":"${ago(400)}","checks":[{"verdict":"fail"}]}`, 0, [true, true]],
  ['not there', '', 7, [true, true]],
  ['refused', '', 22, [true, true]],
  ['empty', '', 0, [true, true]],
  ["a proxy's page", '<html>Sign in</html>', 0, [true, true]],
  ['an object of a proxy', '{"message":"ok"}', 0, [true, true]],
  ['without a time', '{"owed":0,"delivered_until":null,"checks":[]}', 0, [true, false]],
];

describe('The monitors in docs/guides/being-told.md', () => {
  before(function () {
    if (spawnSync('jq', ['--version'], { stdio: 'ignore' }).status !== 0) this.skip();
  });

  for (const [what, answer, failed, alarms] of watched)
    it(`print something where they cannot see that all is well: the answer is ${what}`, async () => {
      const cwd = await newFolder();
      writeFileSync(join(cwd, 'curl'), '#!/bin/sh\nprintf %s "$ANSWER_OF_TEST"\nexit $FAILED\n', {
        mode: 0o755,
      });
      const env = { PATH: `${cwd}:${process.env.PATH}`, ANSWER_OF_TEST: answer, FAILED: String(failed) };
      const printed = monitors.map(
        (script) => spawnSync('bash', ['-c', script], { cwd, env }).stdout.length > 0,
      );
      assert.deepEqual(printed, alarms);
    });
});
