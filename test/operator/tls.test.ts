/** What `doctor` says of a server that speaks TLS and is reached without, or the reverse: what the socket said. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer, type TlsOptions } from 'node:tls';
import { Redis } from 'ioredis';
import { freePort } from '../../local/ports.js';
import { readConfig, redisOptions } from '../../src/config.js';
import { closeDb, openDb } from '../../src/redis/connection/db.js';
import { explainTemporal } from '../../src/temporal/refusal.js';
import { startGrpcProxy } from '../grpcProxy.js';
import { leadBothWays } from '../outgoing/rawReceiver.js';
import { portOf, until } from '../receiver.js';
import { name, startSentinel } from '../redisSentinels.js';
import { opened, servers, settings } from '../servers.js';
import { keptLog } from '../service.js';
import { useTogether } from '../together.js';
import { openCli } from './cli.js';

const folder = join(import.meta.dirname, '../temporal/certificate');
/** Names localhost. */
const certificate = join(folder, 'certificate.pem');

describe('operator: doctor names the reason of a server', () => {
  const plainPort = () => Number(new URL(servers().redisUrl).port);
  const key = readFileSync(join(folder, 'key.pem'));
  const named: string[] = [];
  const createDoor = (leadsTo: () => number, prefix = '', more: TlsOptions = {}) => {
    const SNICallback: TlsOptions['SNICallback'] = (name, go) => {
      named.push(prefix + name);
      go(null);
    };
    return createServer({ key, cert: readFileSync(certificate), SNICallback, ...more }, (inside) =>
      leadBothWays(inside, connect(leadsTo(), '127.0.0.1')),
    );
  };
  const door = createDoor(plainPort);
  /** Demands a certificate of its callers. */
  const demands = { requestCert: true, ca: readFileSync(certificate) };
  const strict = createDoor(plainPort, '', demands);
  const ownCertificate = {
    NODE_EXTRA_CA_CERTS: certificate,
    REDIS_CERTIFICATE_FILE: certificate,
    REDIS_CERTIFICATE_KEY_FILE: join(folder, 'key.pem'),
  };
  let redis: number;
  let strictRedis: number;
  let proxy: Awaited<ReturnType<typeof startGrpcProxy>>;
  let temporal: string;
  before(async () => {
    redis = await portOf(door);
    strictRedis = await portOf(strict);
    proxy = await startGrpcProxy(servers().temporalAddress, true);
    temporal = proxy.address.replace(/.*:/, '');
  });
  after(async () => {
    door.close();
    strict.close();
    await proxy.close();
  });

  const rows: Record<string, [env: () => NodeJS.ProcessEnv, redis: RegExp, temporal: RegExp]> = {
    'whose authority is unknown': [
      () => ({
        REDIS_URL: `rediss://localhost:${redis}`,
        TEMPORAL_ADDRESS: `localhost:${temporal}`,
        TEMPORAL_TLS: 'true',
      }),
      /No TLS connection to Redis can be made \(DEPTH_ZERO_SELF_SIGNED_CERT\).* NODE_EXTRA_CA_CERTS /s,
      /No TLS connection to Temporal can be made \(DEPTH_ZERO_SELF_SIGNED_CERT\).*TEMPORAL_TLS_SERVER_CA_CERT_PATH.*at its start only/s,
    ],
    'whose certificate names another host': [
      () => ({
        REDIS_URL: `rediss://127.0.0.1:${redis}`,
        NODE_EXTRA_CA_CERTS: certificate,
        TEMPORAL_ADDRESS: `127.0.0.1:${temporal}`,
        TEMPORAL_TLS_SERVER_CA_CERT_PATH: certificate,
      }),
      /No TLS connection to Redis can be made \(ERR_TLS_CERT_ALTNAME_INVALID\)/,
      /No TLS connection to Temporal can be made \(ERR_TLS_CERT_ALTNAME_INVALID\)/,
    ],
    'that demands a certificate of the caller': [
      () => ({
        REDIS_URL: `rediss://localhost:${strictRedis}`,
        NODE_EXTRA_CA_CERTS: certificate,
        TEMPORAL_ADDRESS: `localhost:${temporal}`,
        TEMPORAL_TLS: 'true',
      }),
      /Redis demands a certificate of its callers.*Set REDIS_CERTIFICATE_FILE .*tls-auth-clients no/s,
      /^ok +temporal namespace /m,
    ],
    'that speaks no TLS': [
      () => ({
        REDIS_URL: `rediss://127.0.0.1:${plainPort()}`,
        TEMPORAL_ADDRESS: servers().temporalAddress,
        TEMPORAL_TLS: 'true',
      }),
      /ETIMEDOUT.*If REDIS_URL begins with rediss:\/\/, its port may speak no TLS/s,
      /No TLS connection to Temporal can be made \(ERR_SSL_WRONG_VERSION_NUMBER\)/,
    ],
    'that expects TLS': [
      () => ({ REDIS_URL: `redis://127.0.0.1:${redis}`, TEMPORAL_ADDRESS: `127.0.0.1:${temporal}` }),
      /Redis closes the connection without an answer.*If its port expects TLS, begin REDIS_URL with rediss:\/\//s,
      /The port of Temporal expects TLS\..*Set TEMPORAL_TLS=true/s,
    ],
  };
  // Each takes the 5 s for which a command waits for a server.
  const together = useTogether();
  for (const [what, [env, ...says]] of Object.entries(rows)) {
    together(what, async () => {
      const cli = await openCli(env());
      const { status, stdout } = await cli.run(['doctor']);
      for (const words of says) assert.match(stdout, words);
      assert.equal(status, 1);
    });
  }

  const store = async (url: string) => {
    const { log, lines } = keptLog();
    const db = openDb({ url, prefix: '', settings, log });
    // A server may answer the refusal with an alert.
    const answer = (stream?: typeof db.redis.stream) => stream?.emit('error', new Error('an alert'));
    db.redis.once('error', () => setImmediate(answer, db.redis.stream));
    await until('it is named', async () => named.length > 0);
    await until('the reason is known', async () => db.health.reasons().length > 0);
    closeDb(db);
    assert.match(
      JSON.stringify(lines),
      /No TLS connection to Redis can be made \(DEPTH_ZERO_SELF_SIGNED_CERT\)/,
    );
  };
  const callers: Record<string, (address: string) => Promise<unknown>> = {
    Redis: (address) => store(`rediss://${address}`),
    'A node of a cluster': (address) => store(`rediss+cluster://${address}`),
    'A Sentinel': (address) => store(`rediss+sentinel://${address}/${name}`),
    Temporal: (address) => explainTemporal(undefined, { address, tls: true }),
    'Temporal without TEMPORAL_TLS': (address) => explainTemporal(undefined, { address }),
  };
  for (const [who, call] of Object.entries(callers))
    it(`${who} is named in the handshake (SNI): one address may have many servers`, async () => {
      named.length = 0;
      await call(`localhost:${redis}`);
      assert.deepEqual([...new Set(named)], ['localhost']);
    });

  for (const [kind, says] of [
    ['rediss', /^ok +redis +It answers in /m],
    ['rediss+cluster', /The server is a single Redis, not a node of a cluster/],
  ] as const)
    it(`A server that demands a certificate of the caller gets it: ${kind}`, async () => {
      const cli = await openCli({ REDIS_URL: `${kind}://localhost:${strictRedis}`, ...ownCertificate });
      const { stdout } = await cli.run(['doctor']);
      assert.match(stdout, says);
      assert.match(stdout, /settings REDIS_CERTIFICATE_FILE +The certificates for Redis are valid until /);
    });

  it('A certificate for Redis is refused where it is set without its key, with another, or without TLS', () => {
    const env = { REDIS_URL: 'rediss://localhost', ...ownCertificate };
    const refused = (given: Record<string, string>, says: RegExp) =>
      assert.throws(() => readConfig({ ...env, ...given }), says);
    const isWrong =
      /REDIS_CERTIFICATE_FILE: must be, with REDIS_CERTIFICATE_KEY_FILE, files of a certificate/;
    refused({ REDIS_CERTIFICATE_KEY_FILE: '' }, isWrong);
    refused({ REDIS_CERTIFICATE_FILE: '' }, isWrong);
    refused({ REDIS_CERTIFICATE_FILE: '/none' }, isWrong);
    refused({ REDIS_CERTIFICATE_KEY_FILE: join(folder, '../../outgoing/certificate/key.pem') }, isWrong);
    refused({ REDIS_URL: 'redis://localhost' }, /REDIS_CERTIFICATE_FILE: needs TLS/);
    assert.deepEqual(Object.keys(redisOptions(readConfig(env)).certificate ?? {}), [
      'cert',
      'key',
      'endsAtMs',
    ]);
  });

  it('A primary that a Sentinel announces by its name is named in the handshake, and so is the Sentinel; both may demand a certificate', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'asset-update-sentinel-'));
    const port = await freePort();
    const sentinel = opened(
      await startSentinel(dir, servers().redisServerBinary, port, strictRedis, 'localhost'),
    );
    const before = opened(createDoor(() => port, 'sentinel ', demands));
    named.length = 0;
    const cli = await openCli({
      REDIS_URL: `rediss+sentinel://localhost:${await portOf(before)}/${name}`,
      ...ownCertificate,
    });
    const { stdout } = await cli.run(['doctor']);
    assert.match(stdout, /^ok +redis +It answers in /m);
    assert.deepEqual([...new Set(named)].sort(), ['localhost', 'sentinel localhost']);
    await opened(new Redis(port)).call('SENTINEL', 'CONFIG', 'SET', 'announce-hostnames', 'no');
    const { stdout: byAddress } = await cli.run(['doctor']);
    assert.match(
      byAddress,
      /ERR_TLS_CERT_ALTNAME_INVALID.*must name the host that REDIS_URL, a Sentinel or /s,
    );
    await sentinel.stop();
    await rm(dir, { recursive: true });
  });
});
