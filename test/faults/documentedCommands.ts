/** Runs the commands of docs/guides/disaster.md for the stores of `docker compose` against those of a test. */

import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { projectDir } from '../../src/operator/npmStart.js';
import type { Scene } from './scene.js';

const container = /^docker compose (?:exec|run)(?: -\S+)* redis (.*)$/;

/** Those in the first block below the line that begins with `title`; files of theirs lie in the test's folder. */
export async function runDocumented(title: string, scene: Scene): Promise<void> {
  for (const command of await commandsBelow(title)) {
    const inside = container.exec(command)?.[1];
    if (command === 'docker compose stop redis') await scene.system.end('redis');
    else if (command === 'docker compose start redis') await scene.system.start('redis');
    else if (inside?.startsWith('valkey-cli ')) await callRedis(inside, scene);
    else if (inside !== undefined) await runInShell(inside, scene.system.dir);
    else throw new Error(`not known how to run: ${command}`);
  }
}

async function commandsBelow(title: string): Promise<string[]> {
  const page = await readFile(join(projectDir, 'docs/guides/disaster.md'), 'utf8');
  const [, below] = page.split(`\n${title}`);
  const block = below?.split('```')[1];
  if (block === undefined) throw new Error(`docs/guides/disaster.md has no block below "${title}"`);
  return block.trim().split('\n');
}

/** `valkey-cli NAME ARGS | grep FIELD  # wait for VALUE`, where what follows the arguments may be missing. */
async function callRedis(command: string, { db }: Scene): Promise<void> {
  const [, call = '', field, value] =
    /^valkey-cli ([^|#]+)(?:\| grep (\S+) +# wait for (\S+))?$/.exec(command) ?? [];
  const [name = '', ...args] = call.trim().split(' ');
  while (!String(await db.redis.call(name, ...args)).includes(field ? `${field}:${value}` : '')) {
    await pause(20);
  }
}

async function runInShell(command: string, dir: string): Promise<void> {
  const shell = spawn('sh', ['-c', command.replaceAll('/data', './redis')], { cwd: dir, stdio: 'inherit' });
  const status = await new Promise((resolve) => shell.once('close', resolve));
  // Of tar: a file grew while it was read.
  if (status !== 0 && !(status === 1 && command.startsWith('tar '))) throw new Error(`${status}: ${command}`);
}
