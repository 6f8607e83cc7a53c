import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createLogger } from '../../src/log.js';
import { type Db, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { type Service, startService } from '../program.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { servers } from '../servers.js';
import { form } from './form.js';
import { fuzzer, NoPython } from './fuzzer.js';

const run = promisify(execFile);

describe('every call of the OpenAPI description, fuzzed', function () {
  this.timeout(form.fuzzTimeoutMs);
  let service: Service;
  let receiver: Receiver;
  let db: Db;
  let dir: string | undefined;

  let st: readonly [program: string, ...args: string[]];

  before(async function () {
    try {
      st = await fuzzer();
    } catch (err) {
      if (!(err instanceof NoPython)) throw err;
      console.log(`      ${err.message}`);
      this.skip();
    }
    dir = await mkdtemp(join(tmpdir(), 'fuzz-'));
    receiver = await startReceiver();
    let answered = 0;
    receiver.answer = () => (answered++ % 3 === 0 ? 500 : 200);
    // Rates that the fuzzer cannot reach: else most of its calls would see nothing but 429.
    service = await startService({
      LOG_LEVEL: 'warn',
      TOKEN_RATE_PER_SECOND: '10000',
      ACCOUNT_RATE_PER_SECOND: '10000',
    });
    db = openDb({ url: servers().redisUrl, prefix: service.prefix, log: createLogger('silent', 'test') });
    await waitForRedis(db, 5000);
  });
  after(async () => {
    await service?.stop();
    await receiver?.close();
    db?.redis.disconnect();
    if (dir) await rm(dir, { recursive: true, force: true });
  });

  it('answers as described: no 5xx but a documented 503, no crash, no stack trace', async () => {
    const customer = await createAccount(db, {
      name: 'Example Media',
      scopes: ['push_notifications', 'enrichments'],
    });
    const token = await post('/oauth/access_token', {
      body: new URLSearchParams({
        grant_type: 'none',
        client_id: customer.client_id,
        client_secret: customer.client_secret,
        scope: 'push_notifications enrichments',
      }),
    }).then((answer) => String(answer.access_token));
    const authorization = { authorization: `Bearer ${token}` };
    const clients = ['FUZZ-registered', 'FUZZ-another', 'FUZZ-new-1', 'FUZZ-new-2'];
    const notifications: string[] = [];
    const ofNotices = await fetch(`${service.url}/notices`, {
      method: 'PUT',
      headers: { ...authorization, 'content-type': 'application/json' },
      body: JSON.stringify({ url: receiver.url }),
    });
    assert.equal(ofNotices.status, 200);
    for (const [i, clientToken] of clients.entries()) {
      await createClient(db, { accountId: customer.account_id, name: 'Example Site', clientToken });
      if (i > 1) continue;
      const query = new URLSearchParams({ client_token: clientToken, url: receiver.url });
      await post(`/register_push_notifications?${query}`, { headers: authorization });
      for (const asset of ['vid-1', 'vid-2']) {
        const event = {
          event_id: `an-${asset}`,
          client_token: clientToken,
          platform_id: asset,
          segments: ['iab:17'],
        };
        const headers = { ...authorization, 'content-type': 'application/json' };
        const answer = await post('/enrichments', { headers, body: JSON.stringify(event) });
        notifications.push(String(answer.notification_id));
      }
    }
    await until('the first notifications were sent', () => receiver.received.length >= 4);

    assert.ok(dir);
    const config = join(dir, 'schemathesis.toml');
    await writeFile(config, configOf({ token, clients, notifications, url: receiver.url, customer }));
    const log = join(dir, 'answers.har');
    const [python, ...first] = st;
    const fuzzed = await run(
      python,
      [...first, '--config-file', config, 'run', `${service.url}/openapi.json`, `--report-har-path=${log}`],
      { cwd: dir, maxBuffer: 1 << 28 },
    ).then(
      ({ stdout }) => ({ failed: false, said: stdout }),
      (err: { stdout?: string; message: string }) => ({ failed: true, said: err.stdout || err.message }),
    );
    const har = await readFile(log, 'utf8');
    const entries = (JSON.parse(har) as Har).log.entries;
    tellStatuses(entries);
    assert.ok(!fuzzed.failed, fuzzed.said);
    assert.ok(entries.length > 500, `only ${entries.length} calls were made`);
    const late = entries.filter(({ response }) => response.status === 503);
    assert.ok(late.length <= entries.length / 100, `${late.length} of ${entries.length} calls got 503`);
    for (const { response } of late) {
      assert.match(response.content.text ?? '', /"temporarily_unavailable"/);
    }

    const texts = entries.map(({ response }) => response.content.text ?? '');
    const odd = texts.find((text) => /node_modules|dist\/src|\.[jt]s:\d+|node:internal/.test(text));
    assert.equal(odd, undefined);
    assert.ok(!texts.some((text) => text.includes(customer.client_secret)));
    assert.doesNotMatch(service.said(), /unexpected error/);
    assert.equal((await fetch(`${service.url}/readyz`)).status, 200);
  });

  async function post(path: string, init: RequestInit): Promise<Record<string, unknown>> {
    const answer = await fetch(service.url + path, { method: 'POST', ...init });
    assert.ok(answer.ok, `${path}: ${answer.status}`);
    return (await answer.json()) as Record<string, unknown>;
  }
});

interface Har {
  log: {
    entries: {
      request: { method: string; url: string };
      response: { status: number; content: { text?: string } };
    }[];
  };
}

/** How deep it went: the answers by status. */
function tellStatuses(entries: Har['log']['entries']): void {
  const counts = new Map<number, number>();
  for (const { response } of entries) counts.set(response.status, (counts.get(response.status) ?? 0) + 1);
  const shown = [...counts].sort(([a], [b]) => a - b).map(([status, count]) => `${status}: ${count}`);
  console.log(`      ${entries.length} calls; ${shown.join(', ')}`);
}

function configOf(known: {
  token: string;
  clients: string[];
  notifications: string[];
  url: string;
  customer: { client_id: string; client_secret: string };
}): string {
  const list = (values: string[]) => JSON.stringify(values);
  return `
[generation]
max-examples = ${form.examples}
no-shrink = true
[phases.stateful]
enabled = false
[auth.openapi.bearer]
bearer = "${known.token}"
[warnings]
enabled = false
# A store that is late on a busy machine; how often is counted.
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 503]
# A query that is too long is refused as such, whatever is in it.
[checks.negative_data_rejection]
expected-statuses = ["4xx", 503]
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 401, 404, 429, 431, 503]
# What no schema can say: a URL that is registered already or not allowed, a scope that the account does not have, a
# form with a field that is given twice, a cursor of a list in another order, a header that HTTP sets.
[[operations]]
include-path = ["/register_push_notifications", "/push_notifications/test", "/push_notifications/check", "/push_notifications/headers", "/oauth/access_token", "/oauth/revoke", "/notifications", "/notices"]
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 404, 429, 503]
# A place of the feed that never existed.
[[operations]]
include-path = "/updates"
checks.positive_data_acceptance.expected-statuses = ["2xx", 401, 404, 410, 429, 431, 503]
# Without a token it is a parameter that is missing, by contract: 400.
[[operations]]
include-path = "/register_push_notifications"
checks.ignored_auth.enabled = false
# In a batch an event that cannot be taken is refused in its place, and the others are taken.
[[operations]]
include-path = "/enrichments"
checks.negative_data_rejection.expected-statuses = ["4xx", 202, 503]
# GET is also allowed: to a reader of ids "recover" and "replay" are some that do not exist.
[[operations]]
include-path = ["/notifications/recover", "/notifications/replay"]
checks.allow_header_conformance.enabled = false
# Things that exist, so that most calls come past the first checks; the rest is made up.
[dictionaries.clients]
values = ${list(known.clients)}
[dictionaries.notifications]
values = ${list(known.notifications)}
[dictionaries.assets]
values = ["vid-1", "vid-2"]
[dictionaries.events]
values = ["an-vid-1", "an-vid-2"]
[dictionaries.urls]
values = ${list([known.url, `${known.url}?a=%26`, 'http://127.0.0.1:1/'])}
[dictionaries.ids]
values = ${list([known.customer.client_id])}
[dictionaries.secrets]
values = ${list([known.customer.client_secret])}
[dictionaries.scopes]
values = ["push_notifications", "enrichments"]
[parameters]
"query.client_token" = { dictionary = "clients", probability = 0.8 }
"body.url" = { dictionary = "urls", probability = 0.8 }
"query.url" = { dictionary = "urls", probability = 0.5 }
"query.platform_id" = { dictionary = "assets", probability = 0.5 }
"path.platform_id" = { dictionary = "assets", probability = 0.5 }
"path.event_id" = { dictionary = "events", probability = 0.7 }
"path.id" = { dictionary = "notifications", probability = 0.7 }
"body.client_token" = { dictionary = "clients", probability = 0.8 }
"body.platform_id" = { dictionary = "assets", probability = 0.2 }
"body.client_id" = { dictionary = "ids", probability = 0.8 }
"body.client_secret" = { dictionary = "secrets", probability = 0.8 }
"body.scope" = { dictionary = "scopes", probability = 0.8 }
`;
}
