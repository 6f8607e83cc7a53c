import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
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
      let program: string[];
      before(async function () {
        const [command, ...args] = runtime;
        if (spawnSync(command, args, { stdio: 'ignore' }).status !== 0) this.skip();
        program = await prepare();
      });

      /** @returns its one line: the token that it got, and the statuses that an HTTP client saw */
      async function told(client: string): Promise<{ token: string; statuses?: number[] }> {
        const [command = '', ...args] = program;
        const { client_id: CLIENT_ID, client_secret: CLIENT_SECRET, client_token: CLIENT_TOKEN } = account;
        const env = { ...process.env, API: h.url, CLIENT_ID, CLIENT_SECRET, CLIENT_TOKEN, LC_ALL: 'C.UTF-8' };
        const { stdout } = await run(command, [...args, client], { env });
        return JSON.parse(stdout);
      }

      for (const client of [...http, ...oauth]) {
        it(client, async () => {
          const { token, statuses } = await told(client);
          assert.deepEqual(statuses, http.includes(client) ? [200, 202, 413, 400] : undefined);
          const answer = await fetch(`${h.url}/clients`, { headers: { authorization: `Bearer ${token}` } });
          assert.equal(answer.status, 200);
        });
      }
    });
  }
});
