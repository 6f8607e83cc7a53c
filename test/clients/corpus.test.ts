import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { begun } from '../receiver.js';
import { forSuite, openForSuite } from '../servers.js';
import { newCustomer, startHarness } from '../service.js';
import { run } from '../tools.js';
import { languages } from './corpus.js';

describe('real clients', function () {
  this.timeout(300_000);
  const h = openForSuite(() => startHarness({}, 'api'));
  const account = forSuite(() => newCustomer(h, ['push_notifications', 'enrichments']));

  before(async () => {
    await account.register('http://127.0.0.1:9/nobody');
  });

  it('are as many as docs/bad-input.md says', () => {
    const clients = languages.flatMap(({ http, oauth = [] }) => [...http, ...oauth]);
    const said = new RegExp(`^\\| ${clients.length} clients of `, 'm');
    assert.match(readFileSync('docs/bad-input.md', 'utf8'), said);
  });

  for (const { name, runtime, prepare, http, oauth = [] } of languages) {
    describe(`of ${name}`, () => {
      const clients = [...http, ...oauth];
      let lines: Promise<string[]>;
      before(async function () {
        const [command, ...args] = runtime;
        if (spawnSync(command, args, { stdio: 'ignore' }).status !== 0) this.skip();
        const { client_id: CLIENT_ID, client_secret: CLIENT_SECRET, client_token: CLIENT_TOKEN } = account;
        const env = { ...process.env, API: h.url, CLIENT_ID, CLIENT_SECRET, CLIENT_TOKEN, LC_ALL: 'C.UTF-8' };
        const [program, ...first] = await prepare();
        lines = begun(run(program, [...first, ...clients], { env }).then(({ stdout }) => stdout.split('\n')));
      });

      for (const [i, client] of clients.entries()) {
        it(client, async () => {
          // The token that it got, and the statuses that an HTTP client saw.
          const { token, statuses } = JSON.parse((await lines)[i] ?? '');
          assert.deepEqual(statuses, http.includes(client) ? [200, 202, 413, 400] : undefined);
          const answer = await fetch(`${h.url}/clients`, { headers: { authorization: `Bearer ${token}` } });
          assert.equal(answer.status, 200);
        });
      }
    });
  }
});
