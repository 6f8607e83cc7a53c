import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import ipaddr from 'ipaddr.js';
import { parse } from 'yaml';
import { environmentSchema } from '../../../src/config.js';
import { judgeAddress, refusedRanges } from '../../../src/outgoing/address.js';
import { addressesFile, policyBlocks, publicAddresses, schemaFile, valuesSchema } from './generated.js';
import { chartDir } from './tools.js';

interface Values {
  config?: Record<string, unknown>;
}

const read = (file: string): string => readFileSync(join(chartDir, file), 'utf8');
const examples = readdirSync(join(chartDir, 'examples'));
const generate = 'npx tsx test/deploy/helm/generated.ts && npx biome format --write deploy';
const files = ['values.yaml', ...examples.map((file) => `examples/${file}`)];

describe('the values of the Helm chart', () => {
  it('have settings that the schema of the values allows', () => {
    const validate = new Ajv({ strict: false }).compile(JSON.parse(read('values.schema.json')));
    const defaults = (parse(read('values.yaml')) as Values).config;
    for (const file of files) {
      const values = parse(read(file), { merge: true }) as Values;
      // For Helm null removes a default.
      const all = Object.entries({ ...defaults, ...values.config }).filter(([, value]) => value !== null);
      const isValid = validate({ ...values, config: Object.fromEntries(all) });
      assert.ok(isValid, `${file}: ${JSON.stringify(validate.errors)}`);
    }
  });

  it('may be any text that the service takes, lists among them', () => {
    const { config } = JSON.parse(read('values.schema.json')).properties;
    for (const [name, of] of Object.entries(environmentSchema.shape)) {
      // The chart computes with these.
      if (/PORT$/.test(name)) continue;
      const taken = ['', '1', '40', '0.5', '40,50', '40, 50', 'true', 'x'].filter(
        (text) => of.safeParse(text).success,
      );
      const validate = new Ajv({ strict: false }).compile(config.properties[name]);
      const refused = taken.filter((text) => !validate(text));
      assert.deepEqual(refused, [], name);
      const { maximum } = config.properties[name] as { maximum?: number };
      if (maximum === undefined) continue;
      assert.ok(of.safeParse(String(maximum)).success && !of.safeParse(String(maximum + 1)).success, name);
      assert.ok(validate(maximum) && !validate(maximum + 1), name);
    }
  });

  it('have no setting that can carry a secret in config: that is one of secretEnv', () => {
    const validate = new Ajv({ strict: false }).compile(JSON.parse(read('values.schema.json')));
    const { config } = parse(read('values.yaml'), { merge: true });
    const isTaken = (more: object) => validate({ config: { ...config, ...more } });
    const withUser = (scheme: string) => `${scheme}://user:password@host:80`;
    const named = Object.keys(environmentSchema.shape).filter((name) => /SECRET/.test(name));
    const ofLibraries = [
      'TEMPORAL_API_KEY',
      'TEMPORAL_TLS_CLIENT_KEY_DATA',
      'TEMPORAL_GRPC_META_AUTHORIZATION',
    ];
    const headers = ['', 'TRACES_'].map((signal) => `OTEL_EXPORTER_OTLP_${signal}HEADERS`);
    const secrets = Object.fromEntries([...named, ...ofLibraries, ...headers].map((name) => [name, 'x']));
    const endpoints = ['', 'TRACES_'].map((signal) => `OTEL_EXPORTER_OTLP_${signal}ENDPOINT`);
    for (const name of endpoints) secrets[name] = withUser('http');
    for (const [name, of] of Object.entries(environmentSchema.shape)) {
      const isAddress = !of.safeParse('x').success;
      for (const address of ['http', 'redis'].map(withUser))
        if (isAddress && of.safeParse(address).success) secrets[name] = address;
    }
    assert.deepEqual(
      Object.keys(secrets).filter((name) => name in environmentSchema.shape),
      ['SECRETS_KEY', 'OPERATOR_OIDC_CLIENT_SECRET', 'REDIS_URL', 'OUTGOING_PROXY'],
    );
    const isSecretTaken = (name: string) => validate({ secretEnv: { [name]: { name: 'a', key: 'b' } } });
    for (const [name, value] of Object.entries(secrets))
      assert.deepEqual([isTaken({ [name]: value }), isSecretTaken(name)], [false, true], name);
    const plain = {
      OUTGOING_PROXY: 'http://proxy:3128',
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318',
    };
    assert.ok(isTaken(plain), JSON.stringify(validate.errors));
  });

  it('put a process on no loopback address', () => {
    const { config } = JSON.parse(read('values.schema.json')).properties;
    for (const name of ['HOST', 'ADMIN_HOST']) {
      const validate = new Ajv({ strict: false }).compile(config.properties[name]);
      const hosts = ['127.0.0.1', '127.1', 'localhost', '::1', '0.0.0.0', '::', '10.0.0.1'];
      assert.deepEqual(
        hosts.filter((host) => validate(host)),
        ['0.0.0.0', '::', '10.0.0.1'],
        name,
      );
    }
  });

  it('have a schema that knows every setting of the service, as it is made of them', () => {
    assert.deepEqual(JSON.parse(readFileSync(schemaFile, 'utf8')), valuesSchema(), generate);
  });

  it('carry the alerts of deploy/prometheus/alerts.yml, word for word', () => {
    assert.equal(read('files/alerts.yml'), readFileSync('deploy/prometheus/alerts.yml', 'utf8'));
  });
});

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Cidr = [Address, number];

const blocks = policyBlocks().map(({ cidr, except }) => ({
  all: ipaddr.parseCIDR(cidr) as Cidr,
  except: except.map((range) => ipaddr.parseCIDR(range) as Cidr),
}));
const policy = { allowHttp: false, allowedCidrs: [], ownPorts: [] };

const isInside = (address: Address, [network, bits]: Cidr): boolean =>
  network.kind() === address.kind() && address.match(network, bits);

function isLetOut(address: string): boolean {
  const parsed = ipaddr.parse(address);
  return blocks.some(
    ({ all, except }) => isInside(parsed, all) && !except.some((range) => isInside(parsed, range)),
  );
}

/** Both ends of a range, and the addresses beside them. */
function aroundEnds([network, bits]: Cidr): Address[] {
  const length = network.toByteArray().length;
  const value = network.toByteArray().reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  const size = 1n << BigInt(8 * length - bits);
  const first = value - (value % size);
  return [first - 1n, first, first + size - 1n, first + size]
    .filter((one) => one >= 0n && one < 1n << BigInt(8 * length))
    .map((one) => one.toString(16).padStart(2 * length, '0'))
    .map((hex) => ipaddr.fromByteArray([...Buffer.from(hex, 'hex')]));
}

describe('the public addresses of the chart’s NetworkPolicy', () => {
  it('are those to which the service sends, around both ends of every range that either knows', () => {
    assert.equal(readFileSync(addressesFile, 'utf8'), publicAddresses(), generate);
    assert.ok(refusedRanges.length > 20);
    for (const range of [...refusedRanges, ...blocks.flatMap(({ all, except }) => [all, ...except])]) {
      for (const parsed of aroundEnds(range)) {
        const address = parsed.toNormalizedString();
        assert.equal(isLetOut(address), judgeAddress(address, 443, policy) === 'allowed', address);
      }
    }
  });
});
