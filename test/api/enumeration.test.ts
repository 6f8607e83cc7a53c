import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import { once } from 'node:events';
import { syncBuiltinESMExports } from 'node:module';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { createAccount, rotateSecret, setStopped } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { deleteClient } from '../../src/redis/records/deletion.js';
import { describeWithOneRedis, servers, uniquePrefix } from '../servers.js';
import { type Harness, newCustomer, startHarness, tokenFields } from '../service.js';

/** The work whose time could reveal to a stranger whether something exists. It is counted, because time depends on the machine. */
const countedCrypto = ['createHash', 'createHmac', 'hash', 'timingSafeEqual', 'scrypt', 'pbkdf2'] as const;

const byItself = ['clock', 'processes', 'calls:'];

describeWithOneRedis('the same work is done for', () => {
  let h: Harness;
  let endMonitor: () => void;
  const commands: string[][] = [];
  const cryptoCalls: string[] = [];
  const whole = crypto as unknown as Record<string, ((...args: unknown[]) => unknown) | undefined>;
  const original = countedCrypto.map((name) => [name, whole[name]] as const);

  before(async () => {
    for (const [name, counted] of original) {
      if (!counted) continue;
      whole[name] = (...args) => {
        cryptoCalls.push(name);
        return counted(...args);
      };
    }
    syncBuiltinESMExports();
    h = await startHarness({ TOKEN_RATE_PER_SECOND: '1' }, 'api');
    endMonitor = await monitorRedis(servers().redisUrl, (args) => {
      // What a process notes by itself, whatever is asked: the time, that it runs, and what it has counted.
      if (args.some((arg) => byItself.some((name) => arg.startsWith(h.prefix + name)))) return;
      if (args.some((arg) => arg.includes(h.prefix)) || args[0] === 'echo') commands.push(args);
    });
  });
  after(async () => {
    for (const [name, counted] of original) whole[name] = counted;
    syncBuiltinESMExports();
    endMonitor();
    await h.close();
  });

  /** Every command to Redis and every call of the cryptography that a request costs, by name and size. */
  async function workOf(request: () => Promise<Response>): Promise<{ answer: unknown; work: string[] }> {
    await heardUntilNow();
    commands.length = 0;
    cryptoCalls.length = 0;
    const answer = await request();
    const body = (await answer.json()) as Record<string, unknown>;
    const called = [...cryptoCalls];
    await heardUntilNow();
    const asked = commands
      .filter(([name]) => name !== 'echo')
      .map(([name, ...args]) => `${name?.toLowerCase()} with ${args.length} arguments`);
    delete body.request_id;
    return { answer: { status: answer.status, body }, work: [...asked, ...called.toSorted()] };
  }

  /** Waits until all earlier commands were observed. */
  async function heardUntilNow(): Promise<void> {
    const mark = uniquePrefix();
    await h.db.redis.echo(mark);
    while (!commands.some(([, arg]) => arg === mark)) await new Promise((resolve) => setImmediate(resolve));
  }

  const askToken = (fields: Record<string, string>) => () =>
    fetch(`${h.url}/oauth/access_token`, { method: 'POST', body: new URLSearchParams(fields) });

  it('unknown client_id, wrong secret, disabled account', async () => {
    const { db } = h;
    const account = await newCustomer(h);
    const disabled = await newCustomer(h);
    await setStopped(db, disabled.account_id, 'disabled', true);
    const rotated = await createAccount(db, { name: 'Rotated', scopes: ['a', 'b', 'c'] });
    for (let i = 0; i < 3; i++) await rotateSecret(db, rotated.account_id);
    const right = tokenFields(account);
    const wrong = 'w'.repeat(right.client_secret.length);
    const busy = await newCustomer(h);
    const cases: Record<string, Record<string, string>> = {
      'wrong secret, while its tokens are used up': { ...tokenFields(busy), client_secret: wrong },
      'wrong secret': { ...right, client_secret: wrong },
      'wrong secret, rotated three times today': { ...tokenFields(rotated), client_secret: wrong },
      'disabled, right secret': tokenFields(disabled),
      'disabled, wrong secret': { ...tokenFields(disabled), client_secret: wrong },
      'unknown client_id': { ...right, client_id: `cid_${'A'.repeat(12)}` },
      'a client_id that cannot be': { ...right, client_id: 'nobody' },
      'the id of the account for the client_id': { ...right, client_id: account.account_id },
      'wrong secret and wrong scope': { ...right, client_secret: wrong, scope: 'enrichments' },
    };
    const found = new Map<string, Awaited<ReturnType<typeof workOf>>>();
    // Once unseen: scripts that Redis does not know yet are sent whole.
    await workOf(askToken({ ...right, client_id: 'first', client_secret: wrong }));
    while ((await askToken(tokenFields(busy))()).status === 200);
    for (const [name, fields] of Object.entries(cases)) found.set(name, await workOf(askToken(fields)));
    const first = found.get('wrong secret');
    assert.ok(first);
    assert.equal((first.answer as { status: number }).status, 401);
    assert.match(first.work.join('\n'), /^(h(m)?get|hgetall|eval)/m, 'the look-up was counted');
    assert.match(first.work.join('\n'), /hash/i, 'the hash was counted');
    for (const [name, one] of found) assert.deepEqual(one, first, name);
  });

  it('an unknown client token and one that is not a child of the token’s account', async () => {
    const { db } = h;
    const { token } = await newCustomer(h);
    const other = await newCustomer(h);
    const gone = await newCustomer(h);
    await deleteClient(db, gone.client_token);
    const long = 'L'.repeat(other.client_token.length);
    await createClient(db, { accountId: other.account_id, name: 'n'.repeat(500), clientToken: long });
    for (const path of ['/push_notifications', '/notifications', '/register_push_notifications']) {
      const ask = (clientToken: string) => () => {
        const url = path.startsWith('/register') ? { url: 'https://example.com/' } : undefined;
        return fetch(`${h.url}${path}?${new URLSearchParams({ client_token: clientToken, ...url })}`, {
          method: url ? 'POST' : 'GET',
          headers: { authorization: `Bearer ${token}` },
        });
      };
      const first = await workOf(ask('SITE-of-nobody'));
      assert.equal((first.answer as { status: number }).status, path.startsWith('/register') ? 401 : 404);
      assert.match(first.work.join('\n'), /^(h(m)?get|hgetall|eval)/m, 'it was counted');
      for (const clientToken of [other.client_token, long, gone.client_token]) {
        assert.deepEqual(await workOf(ask(clientToken)), first, `${path} ${clientToken}`);
      }
    }
  });
});

/**
 * Passes on each command that a Redis executes, with its arguments, from now on. ioredis' own `monitor` fails with
 * "Command queue state error" if the server is busy: the first commands then come together with its OK.
 * @returns ends it
 */
async function monitorRedis(url: string, hear: (args: string[]) => void): Promise<() => void> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const lines = createInterface({ input: socket });
  socket.write('MONITOR\r\n');
  await once(lines, 'line');
  // +1339518083.107412 [0 127.0.0.1:60866] "set" "a key" "with \"quotes\""
  lines.on('line', (line) => hear([...line.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, arg = '']) => arg)));
  return () => socket.destroy();
}
