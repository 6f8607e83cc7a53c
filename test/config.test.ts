import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readRedisAddress, withoutPassword } from '../src/addresses.js';
import { deliverySettings, environmentSchema, operatorRoles, readConfig } from '../src/config.js';

describe('the settings', () => {
  const key = (id: string) => `${id}:${Buffer.alloc(32, 7).toString('base64')}`;
  const outOfRange = ['192.0.2.0/99', '999.0.0.0/8', '::1/129', ':::/8'];
  const noRanges = [...outOfRange, '192.0.2.0', 'proxy/8', '10/8', '127.1/8', '010.0.0.0/8'];
  const refused: [name: string, what: string, values: string[]][] = [
    ['TRUSTED_PROXIES', 'what is no range', noRanges],
    ['ALLOWED_TARGET_CIDRS', 'what is no range', noRanges],
    ['SOURCE_ADDRESSES', 'what is no range', ['10/8', '1.2']],
    ['OUTGOING_PROXY', 'what is no address', ['http://proxy:65536', 'http://[abc]:3128']],
    ['OUTGOING_PROXY', 'what is not percent-encoded', ['http://me:100%@proxy:3128', 'http://%ff@proxy:3128']],
    [
      'PUBLIC_URL',
      'a path, which no link would have',
      ['https://example.com/hooks', 'https://example.com?x'],
    ],
    ['OPERATOR_URL', 'a path', ['https://example.com/desk/']],
    ['TEMPORAL_UI_URL', 'a password, which links would show', ['https://me:pass@ui.example.com']],
    ['OWN_PORTS', 'what is no port', ['abc', '80,abc', '0', '65536', '80.5', '1e3', '0x50', '-1', '80;81']],
    ['OWN_ADDRESSES', 'what is no name', ['https://api.example.com', 'api.example.com:443', '-a.com']],
    ['OWN_ADDRESSES', 'what is no address or range', ['10.0.0.0/99', '1.2.3']],
    ['TEMPORAL_ADDRESS', 'a URL', ['https://temporal:7233', 'temporal:7233/x']],
    ['TEMPORAL_ADDRESS', 'what is no host', [':7233', 'a b:7233', '::1', 'a:7233,b:7233']],
    ['TEMPORAL_ADDRESS', 'what is no port', ['temporal:65536']],
    ['TEMPORAL_NAMESPACE', 'what Temporal refuses', ['x'.repeat(1001), 'é'.repeat(501)]],
    ['TASK_QUEUE', 'what Temporal refuses', ['/_sys/mine', 'q'.repeat(201)]],
    ['TASK_QUEUE', 'the queue of another one’s upkeep', ['notifications-upkeep']],
    ['TEMPORAL_GRPC_META_TEAM', 'what no header has', ['one\ntwo', 'équipe']],
    ['TEMPORAL_GRPC_META_A B', 'no name of a header', ['plain text']],
    ['TEMPORAL_API_KEY', 'what no header has', ['one\ntwo', 'clé-secrète']],
    ['TEMPORAL_CONFIG_FILE', 'no such file', [join(tmpdir(), 'nowhere', 'temporal.toml')]],
    ['SECRETS_KEY', 'the key id "plain", which marks what is not encrypted', [key('plain')]],
    ['SECRETS_KEY', '"plain" behind another key', [`${key('k1')},${key('plain')}`]],
    ['SECRETS_KEY', 'one key id twice', [`${key('k1')},${key('k1')}`]],
    ['SECRETS_KEY', 'no key at all, which would encrypt nothing', [',', ' , ']],
  ];
  for (const [name, what, values] of refused) {
    it(`${name}: ${what} is refused at the start, by name and without its value`, () => {
      for (const value of values) {
        assert.throws(
          () => readConfig({ [name]: value }),
          (err: Error) =>
            err.message.includes(name.replace(/META_.*/, 'META_*')) &&
            (value.length < 4 || !err.message.includes(value)),
          value,
        );
      }
    });
  }

  for (const wrong of [
    { REDIS_ACK_REPLICAS: '1', REDIS_DURABILITY: 'trusted' },
    { KEY_PREFIX: '{a}', REDIS_URL: 'redis+cluster://127.0.0.1:7000' },
    { OPERATOR_OIDC_CLIENT_ID: 'desk' },
    { SEGMENT_RETENTION_DAYS: '59.9' },
    { REDIS_URL: 'redis+sentinel://a' },
  ]) {
    const [name = '', ...others] = Object.keys(wrong);
    it(`${[name, ...others].join(' with ')}: is refused, also where other settings are wrong too`, () => {
      for (const more of [{}, { LOG_LEVEL: 'loud', TEMPORAL_CONFIG_FILE: '/none' }])
        assert.throws(
          () => readConfig({ ...wrong, ...more }),
          ({ message }: Error) =>
            [name, ...Object.keys(more)].every((one) => message.includes(`\n  ${one}: `)),
        );
    });
  }

  it('each: a wrong value of any kind is refused in one line, in words of ours', () => {
    const kinds = [
      'abc',
      '-1',
      '0.5',
      '1e9',
      'NaN',
      'Infinity',
      '0x1F',
      '10 000',
      'hooks.example.com',
      'https://',
      'yes',
      'TRUE',
      ':',
      '%',
    ];
    for (const name of Object.keys(environmentSchema.shape))
      for (const value of kinds) {
        try {
          readConfig({ [name]: value });
        } catch (err) {
          const [head, ...lines] = String((err as Error).message).split('\n');
          assert.equal(head, 'wrong settings:');
          const names = lines.map((line) => /^ {2}([\w*]+): \S/.exec(line)?.[1]);
          assert.deepEqual(names, [...new Set(names)], lines.join());
          assert.doesNotMatch(
            lines.join(),
            /expected|received|Invalid|Too (small|big)|NaN| >=/,
            `${name}=${value}`,
          );
        }
      }
  });

  it('OUTGOING_PROXY: says how to write a password with a character that ends it', () => {
    for (const password of ['p@ss', 'p/ss', 'p?ss', 'p#ss'])
      assert.throws(
        () => readConfig({ OUTGOING_PROXY: `http://me:${password}@proxy:3128` }),
        /percent-encoded/,
      );
  });

  it('blanks and line ends around a value, as a file leaves them, are no part of it', () => {
    const { KEY_PREFIX, LOG_LEVEL, temporalConnection, TEMPORAL_NAMESPACE } = readConfig({
      KEY_PREFIX: 'one-\r',
      LOG_LEVEL: 'warn\r\n',
      TEMPORAL_API_KEY: 'the-key\n',
      TEMPORAL_NAMESPACE: ' ',
    });
    assert.deepEqual(
      [KEY_PREFIX, LOG_LEVEL, temporalConnection.apiKey, TEMPORAL_NAMESPACE],
      ['one-', 'warn', 'the-key', 'default'],
    );
  });

  it('OPERATOR_OIDC_ROLES: the name of a claim may be an address, and a value have a colon', () => {
    const claimOf = (given: string) => operatorRoles(readConfig({ OPERATOR_OIDC_ROLES: given }));
    const roles = [['ops', 'admin']];
    assert.deepEqual(claimOf('https://example.com/roles:ops=admin'), {
      claim: 'https://example.com/roles',
      roles,
    });
    assert.deepEqual(claimOf('groups:a:ops=admin').roles, [['a:ops', 'admin']]);
  });

  it('lists: valid values are accepted', () => {
    const config = readConfig({
      TRUSTED_PROXIES: '10.0.0.0/8, ::1/128',
      OWN_PORTS: '80, 8080',
      OWN_ADDRESSES: 'api.example.com, API.example.com., 203.0.113.7,2001:db8::/32, localhost',
      SECRETS_KEY: `${key('k2')},${key('k1')}`,
    });
    assert.deepEqual(config.TRUSTED_PROXIES, ['10.0.0.0/8', '::1/128']);
    assert.deepEqual(config.OWN_PORTS, [80, 8080]);
    assert.equal(config.OWN_ADDRESSES.length, 5);
    const keyIds = config.SECRETS_KEY?.map(({ id }) => id);
    assert.deepEqual(keyIds, ['k2', 'k1']);
  });

  it('SEGMENT_RETENTION_DAYS: a time in which something may still be owed, or a receiver may know its id, is refused', () => {
    assert.throws(
      () => readConfig({ SEGMENT_RETENTION_DAYS: '60', OWED_RETENTION_DAYS: '31' }),
      /SEGMENT_RETENTION_DAYS: must be at least 61/,
    );
    const { keepSegmentsSeconds } = deliverySettings(readConfig({ SEGMENT_RETENTION_DAYS: '60' }));
    assert.equal(keepSegmentsSeconds, 60 * 86_400);
    assert.equal(deliverySettings(readConfig({})).keepSegmentsSeconds, 0);
  });
});

const addressOf = (REDIS_URL: string) => readRedisAddress(readConfig({ REDIS_URL }).REDIS_URL);

describe('REDIS_URL', () => {
  it('names one Redis, as ioredis reads it', () => {
    for (const url of ['redis://127.0.0.1:6379', 'rediss://user:p%2Css@host:6380/3']) {
      assert.deepEqual(addressOf(url), { kind: 'single', url });
    }
  });

  it('names one or several nodes of a cluster', () => {
    const credentials = { username: undefined, password: undefined };
    const one = { kind: 'cluster', nodes: [{ host: 'a', port: 6379 }], tls: false, ...credentials };
    assert.deepEqual(addressOf('redis+cluster://a'), one);
    assert.deepEqual(addressOf('redis+cluster://a:6379/0'), one);
    const nodes = [
      { host: 'a', port: 7001 },
      { host: 'b.example', port: 6379 },
      { host: '::1', port: 7003 },
    ];
    assert.deepEqual(addressOf('redis+cluster://a:7001,b.example,[::1]:7003'), { ...one, nodes });
    assert.deepEqual(addressOf('rediss+cluster://user:p%40ss@a:7001, b.example,[::1]:7003'), {
      kind: 'cluster',
      nodes,
      tls: true,
      username: 'user',
      password: 'p@ss',
    });
  });

  it('names Sentinels, the primary, a database and credentials of both', () => {
    const both = 'sentinel_username=u&sentinel_password=p%26w';
    assert.deepEqual(addressOf(`rediss+sentinel://:secret@s1:26380,s2/the-primary/2?${both}`), {
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
});
