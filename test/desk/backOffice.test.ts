import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { openForSuite } from '../servers.js';
import { startDesk } from './scene.js';

const script = join(import.meta.dirname, '../../examples/back-office/customers.mjs');

describe('examples/back-office: customers', () => {
  const scene = openForSuite(() => startDesk());

  async function takeOn(customers: readonly object[], refused = /^$/) {
    const child = spawn(process.execPath, [script], {
      env: { OPERATOR_URL: scene.url, OPERATOR_TOKEN: scene.tokens.admin },
    });
    child.stdin.end(customers.map((one) => `${JSON.stringify(one)}\n`).join(''));
    const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
    assert.match(err, refused);
    const lines = out.trim().split('\n');
    return lines.map((line) => JSON.parse(line));
  }

  const customers = Array.from({ length: 30 }, (_, i) => ({
    name: `Media ${i}`,
    sites: [{ name: `Site ${i}`, token: `BACK-${i}` }],
  }));

  it('are taken on once, however often the script runs, at the same time too', async () => {
    const [first, second] = await Promise.all([takeOn(customers), takeOn(customers)]);
    for (const [i, { account_id, client_secret }] of (await takeOn(customers)).entries()) {
      assert.equal(client_secret, undefined);
      const same = [...first, ...second].filter((one) => one.account_id === account_id);
      assert.equal(same.filter((one) => one.client_secret !== undefined).length, 1, `${i}`);
    }
    const { cli } = scene;
    const accounts: { name: string }[] = await cli.json('account', 'list', '--name', 'Media ');
    assert.equal(accounts.filter(({ name }) => /^Media \d+$/.test(name)).length, 30);
    const sites: { account_id: string }[] = await cli.json('client', 'list', '--name', 'BACK-');
    assert.equal(new Set(sites.map(({ account_id }) => account_id)).size, 30);
    const stranger = (await cli.json('account', 'create', '--name', 'Other')).account_id;
    const other = `client create --account ${stranger} --name X --token BACK-1 --if-absent`;
    assert.match(await cli.refused(...other.split(' ')), /given out before/, 'of another account');
  });

  it('of which one is refused: every secret is told, and the others are taken on', async () => {
    const sites = (n: number) => [{ name: 'Site', token: n === 1 ? 'no token' : `MORE-${n}` }];
    const more = Array.from({ length: 10 }, (_, n) => ({ name: `More ${n}`, sites: sites(n) }));
    const taken = await takeOn(more, /Error: client Site: 400 .*A client token is/);
    assert.equal(taken.filter(({ client_secret }) => client_secret !== undefined).length, 10);
    assert.equal((await scene.cli.json('client', 'list', '--name', 'MORE-')).length, 9);
  });

  it('of which two have one name: the second is refused, and its sites are not those of the first', async () => {
    const twice = ['TWICE-1', 'TWICE-2'].map((token) => ({
      name: 'Twice',
      sites: [{ name: 'Site', token }],
    }));
    await takeOn(twice, /Error: two customers have the name Twice/);
    assert.equal((await scene.cli.json('client', 'list', '--name', 'TWICE-')).length, 1);
  });

  it('are not taken on with a token that no call can carry, and it is not shown', () => {
    const env = { OPERATOR_URL: scene.url, OPERATOR_TOKEN: 'of-ours\nand more' };
    const { stderr } = spawnSync(process.execPath, [script], { env, input: '{}\n', encoding: 'utf8' });
    assert.match(stderr, /^Error: OPERATOR_TOKEN is not/m);
    assert.doesNotMatch(stderr, /of-ours/);
  });

  it('are taken on by a script of 30 lines', () => {
    assert.ok(readFileSync(script, 'utf8').trim().split('\n').length <= 30);
  });
});
