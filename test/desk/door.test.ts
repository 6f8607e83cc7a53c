/** What anybody who reaches the operators' port may do to the others, and what stays of an operator's calls. */
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { pino } from 'pino';
import { recordChange } from '../../src/redis/records/audit.js';
import {
  endPersonSessions,
  listOperatorTokens,
  revokeOperatorToken,
} from '../../src/redis/records/operatorAccess.js';
import { callWithoutEnd, statusesIn } from '../api/rawCaller.js';
import { formTokenIn } from '../console/visitor.js';
import { keysMatching } from '../keysMatching.js';
import { openForSuite } from '../servers.js';
import { personAt, startDesk } from './scene.js';

describe('The operators’ port', () => {
  const lines: Record<string, unknown>[] = [];
  const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const scene = openForSuite(() =>
    startDesk({ TRUSTED_PROXIES: '127.0.0.1/32' }, { strangersPerSecond: 10, log }),
  );
  const ask = (path: string, from: string, token = 'nobody.wrong') =>
    fetch(scene.url + path, {
      headers: { 'x-forwarded-for': from, authorization: `Bearer ${token}` },
      redirect: 'manual',
    });

  it('paces strangers by network, and refuses no operator whom it knows', async () => {
    const bulk = () => ask('/operator/client/list', '203.0.113.1', scene.tokens.look);
    assert.equal((await bulk()).status, 200);
    for (const path of ['/operator/client/list', '/desk', '/desk/open', '/nowhere']) {
      const flood = await Promise.all(Array.from({ length: 60 }, () => ask(path, '203.0.113.1')));
      const refused = flood.filter(({ status }) => status === 429);
      assert.ok(refused.length > 0, path);
      assert.match(refused[0]?.headers.get('retry-after') ?? '', /^[12]$/);
    }
    const done = await Promise.all(Array.from({ length: 60 }, bulk));
    assert.deepEqual(new Set(done.map(({ status }) => status)), new Set([200]));
    assert.equal((await ask('/operator/client/list', '203.0.113.2')).status, 401);
    await revokeOperatorToken(scene.h.db, 'look');
    assert.equal((await bulk()).status, 401);
    const revoked = await Promise.all(Array.from({ length: 60 }, bulk));
    assert.ok(
      revoked.some(({ status }) => status === 429),
      'a revoked token is a stranger’s',
    );
  });

  it('has the operator’s address in entries, and in the log of each refusal', async () => {
    const made = await scene.call(
      'admin',
      'POST',
      '/operator/account/create',
      { name: 'Media' },
      { 'x-forwarded-for': '203.0.113.7' },
    );
    assert.equal(made.status, 200, made.text);
    const [entry] = await scene.cli.json('audit', '--of', made.body.account_id);
    assert.deepEqual([entry.who, entry.address], ['admin (token)', '203.0.113.7']);
    lines.length = 0;
    await ask('/operator/client/list', '203.0.113.8');
    await scene.call(
      'support',
      'POST',
      '/operator/account/create',
      { name: 'M' },
      { 'x-forwarded-for': '203.0.113.9' },
    );
    const refused = lines.filter(({ msg }) => msg === 'request');
    assert.deepEqual(
      refused.map(({ address, status, route }) => [address, status, route]),
      [
        ['203.0.113.8', 401, '/operator/client/list'],
        ['203.0.113.9', 403, '/operator/account/create'],
      ],
    );
    assert.doesNotMatch(JSON.stringify(lines), /nobody\.wrong/);
  });

  it('carries out nothing whose end comes after its token or session has ended', async () => {
    const { h, url, tokens } = scene;
    const person = await personAt(scene, 'admin');
    const form_token = formTokenIn((await person.get('/desk/do/token/create')).html);
    const asked = { name: 'later', role: 'admin', reason: 'a test' };
    const headers = { authorization: `Bearer ${tokens.admin}`, 'content-type': 'application/json' };
    const ends = [
      callWithoutEnd(`${url}/operator/token/create`, headers, JSON.stringify(asked)),
      person.postWithoutEnd('/desk/do/token/create', { form_token, ...asked }),
    ];
    // Longer than what is found holds.
    await pause(1100);
    await Promise.all([revokeOperatorToken(h.db, 'admin'), endPersonSessions(h.db)]);
    for (const end of ends) assert.deepEqual(statusesIn(await end()), [401]);
    const names = (await listOperatorTokens(h.db)).map(({ name }) => name);
    assert.ok(!names.includes('later'), String(names));
  });

  it('keeps the entries of others and those that bear on security, however many an operator makes', async () => {
    const db = scene.h.db;
    const of = { target: 'SITE', before: null, after: null };
    await recordChange(db, { ...of, who: 'Ada', what: 'client set' });
    await recordChange(db, { ...of, who: 'Busy', what: 'token create' });
    await recordChange(db, { ...of, who: 'Busy', what: 'client set', target: 'FIRST' });
    for (let i = 0; i < 100; i++)
      await Promise.all(
        Array.from({ length: 100 }, () => recordChange(db, { ...of, who: 'Busy', what: 'client set' })),
      );
    const entries: { who: string; what: string; target: string }[] = await scene.cli.json('audit');
    const busy = entries.filter(({ who }) => who === 'Busy');
    assert.equal(busy.length, 10_001);
    assert.equal(
      busy.some(({ target }) => target === 'FIRST'),
      false,
    );
    assert.ok(busy.some(({ what }) => what === 'token create'));
    assert.ok(entries.some(({ who }) => who === 'Ada'));
    const lists = await keysMatching(db, `${db.global.auditOf('')}*`);
    for (let i = 0; i < 1001; i++) await recordChange(db, { ...of, who: 'Zoe', what: 'registration reset' });
    const [zoe] = (await keysMatching(db, `${db.global.auditOf('')}*`)).filter((key) => !lists.includes(key));
    assert.equal(await db.redis.llen(String(zoe)), 1, 'beyond 1,000 of a day');
  });
});
