/** Whatever a caller can make Redis keep has a bound in docs/capacity.md: every described call is made many times, then each key is looked at. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createClient } from '../../src/redis/records/clients.js';
import { keysMatching } from '../keysMatching.js';
import { startReceiver } from '../receiver.js';
import { forSuite, openForSuite } from '../servers.js';
import { newCustomer, newToken, startHarness } from '../service.js';
import { type Call, calls, requestOf } from './everyCall.js';

interface Bound {
  atMost: { count: number; isEntries: boolean; of: string } | undefined;
  endsWithinMs: number | undefined;
}

const rounds = 20;
const clientsOfAccount = 3;
const unitMs: Record<string, number> = { s: 1000, min: 60_000, h: 3_600_000, days: 86_400_000 };

/** The bounds by the names of keys, as docs/capacity.md has them. */
function readBounds(): Map<string, Bound> {
  const [, table = ''] =
    /\n\| key of Redis [^\n]*\n\|[-|]*\n((\|.*\n)+)/.exec(readFileSync('docs/capacity.md', 'utf8')) ?? [];
  const rows = table.split('\n').map((line) => line.split('|').map((cell) => cell.trim()));
  return new Map(
    rows.flatMap(([, names = '', , most = '', ends = '']) => {
      const [, count, entries, of] =
        /^([\d,]+) (?:(entr(?:y|ies)) )?of (?:an?|all)\b ?(\w*)/.exec(most) ?? [];
      const [, time, unit = ''] = /(\d+) (s|min|h|days)\b/.exec(ends) ?? [];
      const bound = {
        atMost: count
          ? { count: Number(count.replace(',', '')), isEntries: entries !== undefined, of: of ?? '' }
          : undefined,
        endsWithinMs: time && !/after|ones/.test(ends) ? Number(time) * (unitMs[unit] ?? 0) : undefined,
      };
      return [...names.matchAll(/`([^`]+)`/g)].map(([, name = '']) => [name, bound] as const);
    }),
  );
}

describe('a flood of every call that /openapi.json describes', function () {
  this.timeout(180_000);
  const receiver = forSuite(() => startReceiver());
  const h = openForSuite(() =>
    startHarness(
      { ACCOUNT_RATE_PER_SECOND: '10000', TOKEN_RATE_PER_SECOND: '10000', TRUSTED_PROXIES: '127.0.0.1/32' },
      'all',
      { lookup: async () => [{ address: '127.0.0.1', family: 4 }] },
    ),
  );
  const customer = forSuite(() => newCustomer(h, ['push_notifications', 'enrichments']));
  const tokens: string[] = [];
  const clients: string[] = [];
  const notifications = ['none'];
  const statuses = new Map<string, Map<number, number>>();

  before(async () => {
    for (let i = 0; i < clientsOfAccount; i++) {
      const of = { accountId: customer.account_id, name: 'Site' };
      clients.push((await createClient(h.db, of)).clientToken);
      tokens.push(await newToken(h, customer));
    }
    // The first registers its URL in the flood.
    for (const client of clients.slice(1)) {
      await h.registerUrl(client, receiver.url);
      notifications.push((await h.publish({ client, asset: 'first', eventId: 'first' })).id);
    }
  });

  /** Other values in each round: of a stranger in every fourth, else of the customer. */
  async function call(asked: Call, round: number): Promise<void> {
    const of = (own = '') => (round % 4 === 3 ? `made-up-${round}` : own);
    const n = round % clients.length;
    // What a call reads was there before; what the flood makes is also removed by the flood.
    const isRead = asked.method === 'get';
    const subject = {
      client_token: of(clients[n]),
      id: of(notifications[n]),
      platform_id: of(isRead ? 'first' : `asset-${round % 50}`),
      event_id: of('first'),
    };
    const { client_id, client_secret } = customer;
    const owner = { ...customer, client_id: of(client_id), client_secret: of(client_secret) };
    const url = `${receiver.url}?${round}`;
    const { filled, query, json, form } = requestOf(asked, subject, { url, owner });
    const body = json && JSON.stringify({ ...json, ...('segments' in json && { segments: [`s-${round}`] }) });
    const answer = await fetch(`${h.url}${filled}?${query}`, {
      method: asked.method.toUpperCase(),
      redirect: 'manual',
      headers: {
        ...(!form && { authorization: `Bearer ${tokens[round % tokens.length]}` }),
        'x-forwarded-for': round % 2 ? `2001:db8:${round}::${round}` : `2001:db8::${round}`,
        ...(json && { 'content-type': 'application/json' }),
      },
      body: form ? new URLSearchParams({ ...form, token: of(tokens[0]) }) : body,
    } as RequestInit);
    await answer.arrayBuffer();
    const seen = statuses.get(asked.name) ?? new Map<number, number>();
    statuses.set(asked.name, seen.set(answer.status, (seen.get(answer.status) ?? 0) + 1));
  }

  it('leaves no key without a bound, and none beyond it', async () => {
    for (let round = 0; round < rounds; round++) {
      // A token that is revoked would end the flood of the others.
      if (round % 10 === 0) tokens[0] = await newToken(h, customer);
      await Promise.all(calls.map((one) => call(one, round)));
    }
    const failed = [...statuses].filter(
      ([, seen]) => ![...seen.keys()].some((status) => status < 400 || status === 429),
    );
    assert.deepEqual(failed, [], 'each call is carried out, or is over its rate');
    // On a busy machine a call may find no turn: 503.
    assert.deepEqual(
      [...statuses].filter(([, seen]) => seen.has(500)),
      [],
    );

    const bounds = readBounds();
    const counts = new Map<string, number>();
    const owners: Record<string, number> = { '': 1, account: 1, client: 1, asset: rounds, event: rounds };
    for (const key of await keysMatching(h.db, `${h.prefix}*`)) {
      const [, client = '', kind = ''] = /^(\{[^}]*\}:)?([a-z-]+)/.exec(key.slice(h.prefix.length)) ?? [];
      const bound = bounds.get(kind);
      assert.ok(bound, `docs/capacity.md has no bound for ${key}`);
      const { atMost, endsWithinMs } = bound;
      assert.ok(atMost || endsWithinMs, `${kind} has neither a number nor an end`);
      const { isEntries = false, of = '', count = 0 } = atMost ?? {};
      if (endsWithinMs !== undefined) {
        const leftMs = await h.db.redis.pttl(key);
        assert.ok(leftMs !== -1 && leftMs <= endsWithinMs, `${key} ends in ${leftMs} ms`);
      }
      // In a cluster each range of slots has a mark.
      const owner = client || /acc_[\w-]+|\{\w+\}$/.exec(key)?.[0] || '';
      const sum = (counts.get(`${owner}${kind}`) ?? 0) + (isEntries ? await sizeOf(key) : 1);
      counts.set(`${owner}${kind}`, sum);
      // Streams are trimmed by whole nodes of 100 entries.
      const most = count * (owners[of] ?? 1) * (isEntries ? 1.1 : 1);
      if (atMost) assert.ok(sum <= most, `${sum} of ${kind}, at most ${most}`);
    }
    assert.ok(counts.size > 30, `${counts.size}`);
  });

  async function sizeOf(key: string): Promise<number> {
    const { redis } = h.db;
    const sizes = { stream: 'xlen', hash: 'hlen', zset: 'zcard', set: 'scard', list: 'llen' } as const;
    // A string; or none any more.
    const type = (await redis.type(key)) as keyof typeof sizes | 'string' | 'none';
    return type === 'string' || type === 'none' ? 1 : await redis[sizes[type]](key);
  }
});
