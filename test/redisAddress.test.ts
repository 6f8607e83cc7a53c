import assert from 'node:assert/strict';
import { readRedisAddress, withoutPassword } from '../src/addresses.js';
import { readConfig } from '../src/config.js';

const clusterOf = (REDIS_URL: string) => readRedisAddress(readConfig({ REDIS_URL }).REDIS_URL);

describe('REDIS_URL', () => {
  it('names one Redis, as ioredis reads it', () => {
    for (const url of ['redis://127.0.0.1:6379', 'rediss://user:p%2Css@host:6380/3']) {
      assert.deepEqual(readRedisAddress(readConfig({ REDIS_URL: url }).REDIS_URL), { kind: 'single', url });
    }
  });

  it('names one or several nodes of a cluster', () => {
    const credentials = { username: undefined, password: undefined };
    const one = { kind: 'cluster', nodes: [{ host: 'a', port: 6379 }], tls: false, ...credentials };
    assert.deepEqual(clusterOf('redis+cluster://a'), one);
    assert.deepEqual(clusterOf('redis+cluster://a:6379/0'), one);
    const nodes = [
      { host: 'a', port: 7001 },
      { host: 'b.example', port: 6379 },
      { host: '::1', port: 7003 },
    ];
    assert.deepEqual(clusterOf('redis+cluster://a:7001,b.example,[::1]:7003'), { ...one, nodes });
    assert.deepEqual(clusterOf('rediss+cluster://user:p%40ss@a:7001, b.example,[::1]:7003'), {
      kind: 'cluster',
      nodes,
      tls: true,
      username: 'user',
      password: 'p@ss',
    });
  });

  it('names Sentinels, the primary, a database and credentials of both', () => {
    const { REDIS_URL } = readConfig({
      REDIS_URL:
        'rediss+sentinel://:secret@s1:26380,s2/the-primary/2?sentinel_username=u&sentinel_password=p%26w',
    });
    assert.deepEqual(readRedisAddress(REDIS_URL), {
      kind: 'sentinel',
      name: 'the-primary',
      db: 2,
      tls: true,
      username: undefined,
      password: 'secret',
      nodes: [
        { host: 's1', port: 26380 },
        { host: 's2', port: 26379 },
      ],
      sentinel: { username: 'u', password: 'p&w' },
    });
    const short = readRedisAddress('redis+sentinel://s1/the-primary');
    assert.deepEqual([short.kind === 'sentinel' && short.db, short.kind], [0, 'sentinel']);
  });

  it('is refused with a reason if it is not valid, and never shown', () => {
    for (const [env, reason] of [
      [{ REDIS_URL: 'redis://:secret@a:1,b:2' }, /REDIS_URL: .*redis\+cluster:/],
      [{ REDIS_URL: 'redis+cluster://:secret@a:1/3' }, /REDIS_URL: .*database/],
      [{ REDIS_URL: 'redis+cluster://:secret@a:1,,b' }, /REDIS_URL: .*nodes/],
      [{ REDIS_URL: 'redis+sentinel://:secret@a:1' }, /REDIS_URL: .*master-name/],
      [{ REDIS_URL: 'redis+cluster://:secret@a', KEY_PREFIX: '{a}' }, /KEY_PREFIX: .*braces/],
      [{ REDIS_URL: 'http://:secret@a' }, /REDIS_URL: must start with redis:/],
      [{ REDIS_URL: 'redis://:secret@a/abc' }, /REDIS_URL: .*database with a number/],
      [{ REDIS_URL: 'redis://:secret@a:99999999' }, /REDIS_URL: must be redis:/],
      [{ REDIS_URL: 'redis://:secret@a:65536' }, /REDIS_URL: must be redis:/],
      [{ REDIS_URL: 'redis://:secret@a/0?commandTimeout=9' }, /REDIS_URL: .*no options/],
      [{ REDIS_URL: 'rediss://:secret@a?ssl_cert_reqs=none' }, /REDIS_URL: .*no options/],
      [{ REDIS_URL: 'redis+cluster://:secret@a?db=1' }, /REDIS_URL: .*database/],
      [{ REDIS_URL: 'redis+sentinel://:secret@a/x?db=1' }, /REDIS_URL: .*no options but sentinel/],
    ] as const) {
      assert.throws(
        () => readConfig(env),
        (err: Error) => reason.test(err.message) && !err.message.includes('secret'),
        JSON.stringify(env),
      );
    }
  });

  for (const scheme of ['redis', 'rediss', 'redis+cluster', 'redis+sentinel']) {
    it(`is refused by name, and never shown, if a user or a password is not percent-encoded (${scheme}://)`, () => {
      for (const user of ['', 'app']) {
        for (const mark of [',', '@', '#', '/', '?', '%', '%zz', ' ', '@@', '/?', '#@']) {
          const REDIS_URL = `${scheme}://${user}:first${mark}second@h:6379/0`;
          assert.throws(
            () => readConfig({ REDIS_URL }),
            ({ message }: Error) =>
              /REDIS_URL: .*percent-encoded/.test(message) && !/first|second/.test(message),
            REDIS_URL,
          );
        }
      }
      const encoded = `${scheme}://app:${encodeURIComponent(',@#/?% ')}@h:6379${scheme.endsWith('sentinel') ? '/name' : ''}`;
      const url = readConfig({ REDIS_URL: encoded }).REDIS_URL;
      assert.equal(withoutPassword(url), url.replace(/\/\/.*@/, '//'));
    });
  }

  it('is named together with other wrong settings', () => {
    assert.throws(
      () =>
        readConfig({
          REDIS_URL: 'redis+sentinel://a',
          SEGMENT_RETENTION_DAYS: '1',
          TEMPORAL_PROFILE: 'none',
        }),
      /REDIS_URL: .*SEGMENT_RETENTION_DAYS.*TEMPORAL/s,
    );
  });
});
