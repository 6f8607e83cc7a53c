import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError, readConfig } from '../../src/config.js';
import { createLogger } from '../../src/log.js';
import { connect } from '../../src/temporal/connection.js';
import { connectNative } from '../../src/worker.js';
import { startGrpcProxy } from '../grpcProxy.js';
import { newFolder, opened, servers } from '../servers.js';

const certificate = join(import.meta.dirname, 'certificate/certificate.pem');

describe("Temporal's standard client settings", () => {
  let dir: string;
  let file: string;

  before(async () => {
    dir = await newFolder();
    file = join(dir, 'temporal.toml');
    await writeFile(
      file,
      `[profile.default]
       address = "127.0.0.1:7777"
       [profile.cloud]
       address = "eu-central-1.aws.api.temporal.io:7233"
       namespace = "media.a1b2c"
       api_key = "key-of-the-profile"
       `,
    );
  });

  it('come from a profile: address, namespace and key; a key means TLS; variables take precedence', () => {
    const named = { TEMPORAL_CONFIG_FILE: file, TEMPORAL_PROFILE: 'cloud' };
    const config = readConfig(named);
    const address = 'eu-central-1.aws.api.temporal.io:7233';
    assert.deepEqual(config.temporalConnection, {
      address,
      apiKey: 'key-of-the-profile',
      tls: true,
      metadata: undefined,
    });
    assert.deepEqual([config.TEMPORAL_ADDRESS, config.TEMPORAL_NAMESPACE], [address, 'media.a1b2c']);

    const { temporalConnection } = readConfig({
      ...named,
      TEMPORAL_ADDRESS: '127.0.0.1:1',
      TEMPORAL_API_KEY: 'another',
      TEMPORAL_TLS: 'false',
      TEMPORAL_GRPC_META_TEAM: 'video',
      TEMPORAL_NAMESPACE: '',
    });
    assert.deepEqual(temporalConnection, {
      address: '127.0.0.1:1',
      apiKey: 'another',
      tls: false,
      metadata: { team: 'video' },
    });
  });

  describe('are refused at the start if wrong, by name and without the value', () => {
    const secret = 'secret-value';
    const noAuthority = /TEMPORAL_TLS_SERVER_CA_CERT_\* must be certificates in PEM/;
    const pemOf = (name: string) =>
      readFileSync(certificate.replace('certificate.pem', `${name}.pem`), 'utf8');
    const cases: [what: string, env: () => Record<string, string>, says: RegExp][] = [
      ['a flag that is none', () => ({ TEMPORAL_TLS: 'yes' }), /TEMPORAL_TLS:/],
      ['no such profile', () => ({ TEMPORAL_CONFIG_FILE: file, TEMPORAL_PROFILE: 'x' }), /'x' not found/],
      [
        'a key that cannot be read',
        () => ({ TEMPORAL_TLS_CLIENT_CERT_PATH: certificate, TEMPORAL_TLS_CLIENT_KEY_PATH: `/${secret}` }),
        /TEMPORAL_\*: .*ENOENT/,
      ],
      [
        'a certificate without its key, which would be left out',
        () => ({ TEMPORAL_TLS_CLIENT_CERT_PATH: certificate }),
        /TEMPORAL_TLS_CLIENT_KEY_\*/,
      ],
      [
        'a certificate in the place of its key',
        () => ({ TEMPORAL_TLS_CLIENT_CERT_PATH: certificate, TEMPORAL_TLS_CLIENT_KEY_PATH: certificate }),
        /TEMPORAL_TLS_CLIENT_KEY_\*/,
      ],
      [
        'a certificate with the key of another',
        () => ({
          TEMPORAL_TLS_CLIENT_CERT_PATH: certificate,
          TEMPORAL_TLS_CLIENT_KEY_DATA: String(
            generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }),
          ),
        }),
        /TEMPORAL_TLS_CLIENT_KEY_\*/,
      ],
      [
        'an empty authority',
        () => ({ TEMPORAL_TLS_SERVER_CA_CERT_PATH: join(dir, 'empty.pem') }),
        noAuthority,
      ],
      ...Object.entries({
        'a text': secret,
        'a key': pemOf('key'),
        'cut off': pemOf('certificate').slice(0, -30),
        'half a certificate': pemOf('certificate').replace(/\n[^-]{100}/, '\n'),
        'no certificate inside': `-----BEGIN CERTIFICATE-----\n${secret}\n-----END CERTIFICATE-----\n`,
        'one of two': `${pemOf('certificate')}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n`,
      }).map(([what, text]): (typeof cases)[number] => [
        `an authority that is broken: ${what}`,
        () => ({ TEMPORAL_TLS_SERVER_CA_CERT_DATA: text }),
        noAuthority,
      ]),
      ['a file that is no TOML', () => ({ TEMPORAL_CONFIG_FILE: join(dir, 'broken.toml') }), /Invalid TOML/],
    ];
    before(async () => {
      await writeFile(join(dir, 'empty.pem'), '');
      await writeFile(join(dir, 'broken.toml'), `[profile.default]\napi_key = ${secret}\n`);
    });
    for (const [what, env, says] of cases) {
      it(what, () => {
        assert.throws(
          () => readConfig(env()),
          (err: Error) =>
            err instanceof ConfigError && says.test(err.message) && !err.message.includes(secret),
        );
      });
    }
  });

  it('on the connection use TLS with a given name and authority, and send the key and the metadata with every call, of API and worker', async () => {
    const proxy = opened(await startGrpcProxy(servers().temporalAddress, true));
    const config = readConfig({
      TEMPORAL_ADDRESS: proxy.address,
      TEMPORAL_API_KEY: 'the-key',
      TEMPORAL_TLS_SERVER_CA_CERT_PATH: certificate,
      TEMPORAL_TLS_SERVER_NAME: 'temporal.test',
      TEMPORAL_GRPC_META_TEAM: 'video',
    });
    const lazy = opened(connect(config));
    const { signal: ended } = new AbortController();
    const log = createLogger('silent', 'test');
    const native = opened(await connectNative({ config, log, ended, begun: () => {} }));
    for (const connection of [lazy, native]) {
      const before = proxy.calls.length;
      await connection.workflowService.getSystemInfo({});
      const [call] = proxy.calls.slice(before);
      assert.ok(call);
      assert.equal(call.headers.authorization, 'Bearer the-key');
      assert.equal(call.headers.team, 'video');
    }
  });
});
