import assert from 'node:assert/strict';
import { devNull } from 'node:os';
import { SystemNames } from '../../src/outgoing/names.js';
import { tried } from '../families.js';
import { requestTo, useNetwork } from './rawReceiver.js';

/** What is no answer, and what an attempt says of a name for which all servers have none. */
const failures = {
  malformed: 'name_server_failed',
  broken: 'name_server_failed',
  not_implemented: 'name_server_failed',
  refused: 'name_server_failed',
  truncated: 'name_server_truncated',
  silent: 'name_server_silent',
  absent: 'name_server_silent',
} as const;
type Failing = keyof typeof failures;
const kinds = Object.keys(failures) as Failing[];

describe('name servers', () => {
  const { startDns, sending } = useNetwork();

  /** Starts a server for each kind, which fails to answer for `zone`; `absent`: for every name. */
  async function startAll(hows: readonly (Failing | 'well')[], zone = '', timeoutMs = 100) {
    const asked: number[] = [];
    const questions: string[] = [];
    const servers = await Promise.all(
      hows.map((how, i) =>
        how === 'absent'
          ? '127.0.0.1:9'
          : startDns((name) => {
              asked.push(i);
              questions.push(name);
              return how !== 'well' && name.endsWith(zone) ? how : ['192.0.2.1'];
            }).then(({ address }) => address),
      ),
    );
    return { names: new SystemNames({ servers, hostsPath: devNull, timeoutMs }), asked, questions };
  }

  const pairs = kinds.flatMap((first) => kinds.map((second) => [first, second]));
  for (const before of [...kinds.map((one) => [one]), ...tried(pairs, 6)])
    it(`that are ${before.join(' and ')} are followed by the next, which is asked first from then on`, async () => {
      const { names, asked } = await startAll([...before, 'well'], '', 1_000);
      const addressOf = async (name: string) => (await names.lookup(name))[0]?.address;
      assert.equal(await addressOf('hooks.example'), '192.0.2.1');
      asked.length = 0;
      assert.equal(await addressOf('next.example'), '192.0.2.1');
      assert.deepEqual(asked, [before.length, before.length], 'A and AAAA');
    });

  for (const how of kinds)
    for (const count of [1, 2])
      for (const isOurs of how === 'absent' ? [true] : [true, false])
        it(`${count} of which are ${how} for ${isOurs ? 'every name are' : 'one name are not'} to blame`, async () => {
          const zone = isOurs ? '' : 'dead.example';
          const { names, questions } = await startAll(Array(count).fill(how), zone);
          const result = await sending({ names }).post(requestTo('http://hooks.dead.example/'));
          const detail = isOurs && how === 'truncated' ? 'name_server_silent' : failures[how];
          const ours = isOurs ? 'resolver' : undefined;
          assert.deepEqual([result.error, result.detail, result.ours], ['dns', detail, ours]);
          if (how !== 'absent') assert.ok(questions.includes(''), 'they are asked for something else');
        });

  for (const [forWhat, zone, error, ours] of [
    ['every name are', '', 'dns', 'resolver'],
    ['one name are not', 'dead.example', 'timeout', undefined],
  ] as const)
    it(`that are silent for longer than the attempt may take, for ${forWhat} to blame`, async () => {
      const { names } = await startAll(['silent'], zone, 20_000);
      const result = await sending({ names, timeoutMs: 100 }).post(requestTo('http://hooks.dead.example/'));
      assert.deepEqual([result.error, result.ours], [error, ours]);
    });

  it('of which one is away for every name do not make another’s failure for one name ours', async () => {
    for (const how of kinds.filter((kind) => kind !== 'absent')) {
      const { names } = await startAll(['absent', how], 'dead.example');
      const { detail, ours } = await sending({ names }).post(requestTo('http://hooks.dead.example/'));
      assert.deepEqual([detail, ours], [failures[how], undefined], how);
    }
  });

  it('that deny a name are believed, and the next is not asked', async () => {
    let others = 0;
    const first = await startDns(() => 'unknown');
    const second = await startDns(() => {
      others++;
      return ['192.0.2.1'];
    });
    const names = new SystemNames({ servers: [first.address, second.address], hostsPath: devNull });
    await assert.rejects(names.lookup('hooks.example'), { code: 'ENOTFOUND' });
    assert.equal(others, 0);
  });
});
