/**
 * `npm run bench -- growth`: what the operators' lists, Find, audit, status and desk, and the sweep, cost with some accounts and with many,
 * and how long others wait meanwhile.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { Pool } from 'undici';
import { newAccountId, newClientToken } from '../src/ids.js';
import { noteMinute } from '../src/redis/records/auditMinutes.js';
import { createOperatorToken, personSessions } from '../src/redis/records/operatorAccess.js';
import { monotonicMs, readUsages } from './processUsage.js';
import { beginRunRecord, table } from './report.js';
import { type Stack, startStack } from './stack.js';

interface Options {
  accounts: string;
  sites: number;
}

export const growthCommand = (positive: (text: string) => number) =>
  new Command('growth')
    .description('What reading all accounts and sites costs, and how long others wait meanwhile.')
    .argument('[reads...]', 'parts of their names; all when none is given')
    .option('--accounts <n,n>', 'how many there are, step by step', '1000,50000')
    .option('--sites <n>', 'of each account', positive, 4)
    .action(run);

async function run(named: string[], { accounts, sites }: Options): Promise<void> {
  const { command, startedAt, machine } = beginRunRecord();
  console.log(`\`${command}\`, ${startedAt}: ${machine}.\n`);
  const stack = await startStack({ split: false, givenPids: {} });
  try {
    const head = ['accounts', 'what', 'ms', 'CPU ms of the service', 'of Redis', 'others wait, ms', 'bytes'];
    console.log(table(head, []));
    let there = 0;
    for (const count of accounts.split(',').map(Number)) {
      await grow(stack, there, count, sites);
      there = count;
      for await (const row of measureAll(stack, named, count, sites))
        console.log(`| ${[count.toLocaleString('en'), ...row].join(' | ')} |`);
    }
  } finally {
    await stack.stop();
  }
}

const hourMs = 3_600_000;
const nameOf = (i: number) => `Customer ${i.toString().padStart(6, '0')}`;

/**
 * Writes accounts `from` to `to`, each with sites that have a URL, and one call in the audit, all over the last hour. Nothing listens
 * there, and nothing is sent.
 */
async function grow({ db }: Stack, from: number, to: number, sites: number): Promise<void> {
  const { redis, global, client } = db;
  const at = Date.now();
  for (let step = from; step < to; step += 500) {
    const commands = redis.pipeline();
    const notes: Promise<void>[] = [];
    for (let i = step; i < Math.min(to, step + 500); i++) {
      const [account, name] = [newAccountId(), nameOf(i)];
      const fields = { secret_hash: 'none', name, scopes: '', generation: 1, created_at: at };
      commands.hset(global.account(account), fields);
      commands.sadd(global.accounts, account).hset(global.accountIndex, account, `${at}\n${name}`);
      const made = { clientToken: '', what: 'token made', address: '127.0.0.1' };
      const call = { ...made, tokenFingerprint: '', about: {} };
      const calledAt = at - Math.floor((hourMs * i) / to);
      commands.xadd(global.accountCalls(account), calledAt, 'call', JSON.stringify(call));
      notes.push(noteMinute(db, 'account', account, calledAt));
      for (let n = 0; n < sites; n++) {
        const [token, site] = [newClientToken(), `Site ${i}-${n}`];
        commands.hset(client(token).client, { account_id: account, name: site });
        commands.sadd(global.clients, token).sadd(global.accountClients(account), token);
        const registration = { url: `http://127.0.0.1:9/${token}`, registered_at: at, answered: 1 };
        commands.hset(client(token).registration, registration);
        commands.hset(global.clientIndex, token, `${site}\n127.0.0.1:9`);
      }
    }
    await Promise.all(notes);
    const [failed] = ((await commands.exec()) ?? []).filter(([err]) => err !== null);
    if (failed) throw failed[0];
  }
}

async function* measureAll(stack: Stack, named: string[], count: number, sites: number) {
  const { db, baseUrl, pids, adminUrl } = stack;
  const name = `growth-${count}`;
  const token = await createOperatorToken(db, { name, role: 'admin' });
  const link = await personSessions.createLink(db, { name, role: 'admin', how: 'link' });
  const desk = new Pool(adminUrl, { headersTimeout: 300_000, bodyTimeout: 300_000 });
  const others = new Pool(baseUrl, { connections: 1 });
  const origin = { origin: adminUrl, 'content-type': 'application/x-www-form-urlencoded' };
  const opening = {
    method: 'POST',
    path: '/desk/open',
    headers: origin,
    body: `link=${link.token}`,
  } as const;
  const opened = await desk.request(opening);
  await opened.body.dump();
  const cookies = [opened.headers['set-cookie'] ?? []].flat();
  const cookie = cookies.map((one) => one.split(';')[0]).join('; ');
  const page = async (path: string, headers: Record<string, string>, form?: string) => {
    const asked = form === undefined ? { method: 'GET' as const } : { method: 'POST' as const, body: form };
    const { statusCode, body } = await desk.request({ path, headers: { ...origin, ...headers }, ...asked });
    const text = await body.text();
    if (statusCode >= 400) throw new Error(`${path}: ${statusCode} ${text.slice(0, 300)}`);
    return text;
  };
  const formToken = /name="form_token" value="([^"]+)"/.exec(await page('/desk/find', { cookie }))?.[1] ?? '';
  const call = (path: string) => () => page(`/operator/${path}`, { authorization: `Bearer ${token}` });
  const at = (path: string) => () => page(path, { cookie });
  const find = (q: string) => () =>
    page('/desk/find', { cookie }, String(new URLSearchParams({ form_token: formToken, q })));
  const last = encodeURIComponent(nameOf(count - 1));
  const { account_id } = JSON.parse(await call(`account/list?name=${last}`)()).accounts[0];
  const steps: Record<string, () => Promise<unknown>> = {
    'list of accounts': call('account/list'),
    'list of accounts, by a part of the name': call(`account/list?name=${last}`),
    'list of sites': call('client/list'),
    'list of sites, by a part of the name': call(`client/list?name=Site+${count - 1}-${sites - 1}`),
    'Find: a customer': find(nameOf(count - 1)),
    'Find: a site by a part of its name': find(`Site ${count - 1}-${sites - 1}`),
    'Find: nothing': find('no-such-thing'),
    'desk: customers': at('/desk/accounts'),
    'desk: one customer': at(`/desk/accounts/${account_id}`),
    'desk: audit of a week': at('/desk/do/audit'),
    'audit of an hour': call(`audit?since=1h`),
    'ten audits of an hour at once': () => Promise.all(Array.from({ length: 10 }, call('audit?since=1h'))),
    'audit of one account': call(`audit?of=${account_id}`),
    'newest notifications': call('notification/list'),
    status: call('status'),
    'desk: Now': at('/desk'),
    'a minute with sweeps': () => sleep(60_000),
    'a hundred scrapes': async () => {
      for (let i = 1; i < 100; i++) await page('/metrics', {});
      return await page('/metrics', {});
    },
  };
  for (const [what, step] of Object.entries(steps)) {
    if (named.length > 0 && !named.some((part) => what.includes(part))) continue;
    const before = readUsages(pids);
    const begun = monotonicMs();
    let isOver = false;
    const waits = (async () => {
      let longest = 0;
      while (!isOver) {
        const sent = monotonicMs();
        await (await others.request({ method: 'GET', path: '/source_addresses' })).body.dump();
        await db.redis.ping();
        longest = Math.max(longest, monotonicMs() - sent);
        await sleep(20);
      }
      return longest;
    })();
    const answered = await step().catch((err: unknown) => err);
    const ms = monotonicMs() - begun;
    isOver = true;
    const after = readUsages(pids);
    const cpu = (of: string) => ((after[of]?.cpuMs ?? 0) - (before[of]?.cpuMs ?? 0)).toFixed(0);
    const text = typeof answered === 'string' ? String(answered.length) : '';
    const size = answered instanceof Error ? answered.message : text;
    yield [what, ms.toFixed(0), cpu('all'), cpu('redis'), (await waits).toFixed(0), size];
  }
  await desk.close();
  await others.close();
}
