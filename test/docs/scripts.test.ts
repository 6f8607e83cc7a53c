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
