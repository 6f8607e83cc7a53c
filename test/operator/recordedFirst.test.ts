/** What an operator changes is in the audit before: a command that ends midway leaves no change without an entry. */
import assert from 'node:assert/strict';
import { nameOf } from '../../src/operator/operation.js';
import { operations } from '../../src/operator/operations.js';
import { planCatchUp } from '../../src/redis/owed/standing.js';
import { newNonce, runTurn } from '../../src/redis/owed/turn.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { createOperatorToken } from '../../src/redis/records/operatorAccess.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { askForUrl } from '../../src/redis/records/urlRequests.js';
import { tried } from '../families.js';
import { keysMatching } from '../keysMatching.js';
import { type Cli, openCli, owe, registeredClient } from './cli.js';

const commands = [
  'account set ACCOUNT --scope enrichments',
  'account disable ACCOUNT',
  'account enable ACCOUNT',
  'account pause ACCOUNT',
  'account resume ACCOUNT',
  'account rotate-secret ACCOUNT',
  'account rotate-secret ACCOUNT --now',
  'asset forget SITE delivered',
  'console SITE',
  'console SITE --end',
  'client set SITE --max-in-flight 3 --quiet-seconds 60',
  'client delete SITE',
  'secrets rotate SITE',
  'secrets rotate SITE --now',
  'registration reset SITE',
  'registration change SITE --url http://127.0.0.1:4998/hook',
  'registration restore SITE',
  'registration accept SITE',
  'registration decline SITE',
  'registration pause SITE',
  'registration resume SITE',
  'registration test SITE',
  'registration check SITE',
  'notification redeliver WAITING',
  'notification cancel WAITING',
  'notification recover SITE --since 1d',
  'notification dismiss SITE --since 1d',
  'notification resend SITE --state delivered',
  'notification replay SITE --since 1d',
  'token revoke crm',
  'desk --role look',
  'desk --end',
];
const creations = {
  'account create': '--name New --if-absent',
  'client create': '--account ACCOUNT --name New --token NEW --if-absent',
  'token create': '--name new --role look',
};
/**
 * The same secrets, encrypted with another key, are recorded last, which confirms them; a store that is not empty cannot be accepted as
 * empty.
 */
const others = ['secrets reencrypt', 'store accept-empty'];

describe('audit: what an operator changes is recorded first', () => {
  /** A site with a notification of each kind that a command can change. */
  async function newSite(cli: Cli) {
    const { db, json } = cli;
    const { account_id } = await createAccount(db, { name: 'Media' });
    await registeredClient(cli, account_id, 'SITE', 'http://127.0.0.1:4997/hook');
    // Leaves what can be restored.
    await json('registration', 'change', 'SITE', '--url', 'http://127.0.0.1:4997/hooks');
    const asked = { url: 'http://127.0.0.1:4996/hook', reason: 'we have moved', by: 'token' };
    await askForUrl(db, createSecretBox(undefined), 'SITE', asked);
    await createOperatorToken(db, { name: 'crm', role: 'look' });
    await owe(cli, 'SITE', 'failed');
    await planCatchUp({ ...db, settings: { ...db.settings, retentionMs: 0 } }, 'SITE', 0);
    await owe(cli, 'SITE', 'delivered');
    const turn = { nonce: newNonce(), most: 1 };
    const attempt = { at: Date.now(), url: 'http://127.0.0.1:4997', milliseconds: 1 };
    const { taken } = await runTurn(db, 'SITE', turn);
    await runTurn(db, 'SITE', {
      ...turn,
      most: 0,
      verdicts: taken.map((one) => ({ taken: one, ok: true, attempt })),
    });
    return { ACCOUNT: account_id, WAITING: await owe(cli, 'SITE', 'waiting') };
  }

  async function stored({ db, prefix }: Cli): Promise<Record<string, string | undefined>> {
    const keys = await keysMatching(db, `${prefix}*`);
    // With an entry the operator's own count of entries changes too.
    const beside = [db.global.diskMark, `${prefix}audit-of:`, `${prefix}audit-day:`];
    const kept = keys.filter((key) => !beside.some((one) => key.startsWith(one))).sort();
    const values = await Promise.all(kept.map((key) => db.redis.dumpBuffer(key)));
    return Object.fromEntries(kept.map((key, i) => [key, values[i]?.toString('base64')]));
  }

  it('by every operation', () => {
    const changing = operations.filter(({ changes }) => changes).map(nameOf);
    const isTried = (name: string) => commands.some((one) => one === name || one.startsWith(`${name} `));
    assert.deepEqual(
      changing.filter((name) => !isTried(name)),
      [...Object.keys(creations), ...others].sort(),
    );
  });

  for (const [command, options] of Object.entries(creations))
    it(`so without an entry nothing is made, and the repeat of it makes it with one: ${command}`, async () => {
      const cli = await openCli();
      const { ACCOUNT } = await newSite(cli);
      const args = `${command} ${options.replace('ACCOUNT', ACCOUNT)}`.split(' ');
      const listed = async () => (await cli.json(command.split(' ')[0] ?? '', 'list')).length;
      const before = await listed();
      const { audit } = cli.db.global;
      await cli.db.redis.set(audit, 'no stream');
      await cli.refused(...args);
      assert.equal(await listed(), before);
      await cli.db.redis.del(audit);
      await cli.json(...args);
      assert.equal(await listed(), before + 1);
      const [entry] = await cli.json('audit');
      assert.equal(entry.what, command);
    });

  for (const command of tried(commands, 3))
    it(`so without an entry nothing changes, and with one something does: ${command}`, async () => {
      const cli = await openCli();
      const names: Record<string, string> = await newSite(cli);
      const args = command.split(' ').map((word) => names[word] ?? word);
      if (command.startsWith('account enable')) await cli.json('account', 'disable', names.ACCOUNT ?? '');
      await setPaused(cli.db, 'SITE', !command.startsWith('registration pause'));
      const { audit } = cli.db.global;
      await cli.db.redis.set(audit, 'no stream');
      const before = await stored(cli);
      await cli.refused(...args);
      assert.deepEqual(await stored(cli), before);
      await cli.db.redis.del(audit);
      await cli.run(args);
      const after = await stored(cli);
      assert.notEqual(after[audit], undefined);
      const isOnlySent = /^registration (test|check)/.test(command);
      assert[isOnlySent ? 'deepEqual' : 'notDeepEqual']({ ...after, [audit]: before[audit] }, before);
    });
});
