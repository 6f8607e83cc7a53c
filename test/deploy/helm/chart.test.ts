import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { endsWithinSeconds, killedAfterSeconds, readConfig } from '../../../src/config.js';
import { clusterWith } from './cluster.js';
import { isBuilt } from './isBuilt.mjs';
import { environmentOf, type Manifest, ofKind, podsOf, rendered } from './rendered.js';
import { chartDir, helm, isKnown, kubeconform, kubernetesVersions } from './tools.js';

const examples = readdirSync(join(chartDir, 'examples')).map((file) => join(chartDir, 'examples', file));
const everyShape = [[], ...examples.map((file) => ['-f', file])];
const secrets = {
  SECRETS_KEY: `k1:${Buffer.alloc(32).toString('base64')}`,
  REDIS_URL: 'rediss://user:password@redis.example.com:6379',
  TEMPORAL_API_KEY: 'a-key',
};
const wrongService = 'apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {portss: []}\n';

const inNamespace = (name: string) => ({
  namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': name } },
});
const inOwn = { podSelector: {} };
const inAny = { namespaceSelector: {} };

const nameOf = ({ metadata }: Manifest): string => metadata.name;

/** What the NetworkPolicy allows. */
const policyOf = async (...args: string[]) => ofKind(await rendered(...args), 'NetworkPolicy')[0]?.spec;

/** The files of a volume: the service checks a certificate and its key. */
function withFiles(environment: Record<string, string>): Record<string, string> {
  const given = Object.entries(environment);
  const file = (name: string) =>
    `test/temporal/certificate/${name.includes('KEY') ? 'key' : 'certificate'}.pem`;
  return Object.fromEntries(
    given.map(([name, value]) => [name, name.endsWith('_PATH') ? file(name) : value]),
  );
}

describe('the Helm chart', function () {
  // Building Helm takes minutes the first time.
  this.timeout(30 * 60_000);

  before(async function () {
    if (!isBuilt()) this.skip();
    await helm('version');
  });

  it('passes helm lint, with its own values and each of its examples', async () => {
    for (const args of everyShape) await helm('lint', '--strict', '--quiet', chartDir, ...args);
  });

  it('renders objects that the schemas of Kubernetes and the Prometheus Operator allow', async () => {
    const monitored = ['monitoring.serviceMonitor.enabled=true', 'monitoring.prometheusRule.enabled=true'];
    const set = monitored.flatMap((value) => ['--set', value]);
    const all = await Promise.all(
      everyShape.map((args) => helm('template', 'rel', chartDir, ...args, ...set)),
    );
    for (const version of kubernetesVersions) {
      await kubeconform(all.join('\n---\n'), version);
      await assert.rejects(kubeconform(wrongService, version), /portss/);
    }
  });

  it('gives the service valid settings, and secrets by reference only', async () => {
    for (const args of everyShape) {
      for (const [role, { containers }] of podsOf(await rendered(...args))) {
        const environment = environmentOf(containers[0], secrets);
        const unknown = Object.keys(environment).filter((name) => !isKnown(name));
        assert.deepEqual(unknown, [], `${role} ${args}`);
        const config = readConfig(withFiles(environment));
        const ports = containers[0].ports.map(({ containerPort }) => containerPort);
        assert.deepEqual(ports, role === 'worker' ? [config.ADMIN_PORT] : [config.PORT, config.ADMIN_PORT]);
        for (const { name, value } of containers[0].env) {
          if (name in secrets && value !== undefined) assert.doesNotMatch(value, /@/, name);
        }
      }
    }
  });

  it('confines every Pod as the Pod Security Standard "restricted" asks', async () => {
    for (const args of everyShape) {
      for (const pod of podsOf(await rendered(...args)).values()) {
        const [container] = pod.containers;
        assert.equal(pod.securityContext.runAsNonRoot, true);
        assert.deepEqual(pod.securityContext.seccompProfile, { type: 'RuntimeDefault' });
        assert.deepEqual(container.securityContext, {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        });
        assert.deepEqual([pod.automountServiceAccountToken, pod.enableServiceLinks], [false, false]);
        const writable = container.volumeMounts.filter(({ readOnly }) => !readOnly);
        const paths = writable.map(({ mountPath }) => mountPath);
        assert.deepEqual(paths, ['/tmp']);
        assert.ok(container.resources.limits.memory);
      }
    }
  });

  it('checks health on ADMIN_PORT, and kills a Pod only after the service’s own forced end', async () => {
    const slow = ['--set', 'config.ATTEMPT_TIMEOUT_SECONDS=45', '--set', 'config.SHUTDOWN_DELAY_SECONDS=2.5'];
    for (const args of [...everyShape, slow]) {
      for (const pod of podsOf(await rendered(...args)).values()) {
        const [container] = pod.containers;
        const config = readConfig(withFiles(environmentOf(container, secrets)));
        const grace = pod.terminationGracePeriodSeconds;
        assert.equal(grace, Math.ceil(killedAfterSeconds(config)), String(args));
        assert.ok(grace >= endsWithinSeconds(config) + 5);
        assert.deepEqual(container.startupProbe.httpGet, { path: '/healthz', port: 'admin' });
        assert.deepEqual(container.livenessProbe.httpGet, { path: '/healthz', port: 'admin' });
        assert.deepEqual(container.readinessProbe.httpGet, { path: '/readyz', port: 'admin' });
      }
    }
    await assert.rejects(rendered('--set', 'terminationGracePeriodSeconds=20'), /must be at least 55/);
  });

  it('has two processes of `all` behind one Service, or separate APIs and workers', async () => {
    const usual = await rendered();
    assert.deepEqual([...podsOf(usual).keys()], ['all']);
    assert.equal(ofKind(usual, 'Deployment')[0]?.spec.replicas, 2);
    const apart = await rendered('--set', 'shape=apart');
    assert.deepEqual([...podsOf(apart).keys()].sort(), ['api', 'worker']);
    const [service] = ofKind(apart, 'Service').filter(({ metadata }) => metadata.name === 'rel-asset-update');
    assert.equal(service?.spec.selector['app.kubernetes.io/component'], 'api');
    assert.deepEqual(
      ofKind(apart, 'PodDisruptionBudget')
        .map(({ metadata }) => metadata.name)
        .sort(),
      ['rel-asset-update-api', 'rel-asset-update-worker'],
    );
  });

  it('leaves the number of Pods to the autoscaler that a role has', async () => {
    const manifests = await rendered('--set', 'shape=apart', '--set', 'worker.autoscaling.enabled=true');
    const replicas = ofKind(manifests, 'Deployment').map(({ metadata, spec }) => [
      metadata.name,
      spec.replicas,
    ]);
    assert.deepEqual(Object.fromEntries(replicas), {
      'rel-asset-update-api': 2,
      'rel-asset-update-worker': undefined,
    });
  });

  it('keeps the number of Pods that run when their autoscaling is turned on', async () => {
    const cluster = await clusterWith({ 'rel-asset-update-all': 5, 'rel-asset-update-worker': 1 });
    const replicas = async (...set: string[]) =>
      ofKind(await rendered(...set.flatMap((one) => ['--set', one]), ...cluster), 'Deployment').map(
        ({ spec }) => spec.replicas,
      );
    assert.deepEqual(await replicas('all.autoscaling.enabled=true'), [5]);
    assert.deepEqual(await replicas('all.replicas=3'), [3]);
    const apart = ['api', 'worker'].map((role) => `${role}.autoscaling.enabled=true`);
    assert.deepEqual(await replicas('shape=apart', ...apart), [undefined, 1]);
  });

  it('changes its shape in two steps: the first changes nothing that runs, the second leads calls to what runs', async () => {
    const roleOf = ({ spec }: Manifest) => spec.selector['app.kubernetes.io/component'];
    for (const [from, to] of [
      ['all', 'apart'],
      ['apart', 'all'],
    ]) {
      const set = (...given: string[]) => rendered(...given.flatMap((one) => ['--set', one]));
      const before = await set(`shape=${from}`);
      const both = await set(`shape=${from}`, `nextShape=${to}`);
      const after = await set(`shape=${to}`);
      const missing = (one: Manifest) => !both.some((other) => isDeepStrictEqual(one, other));
      assert.deepEqual(before.filter(missing), []);
      assert.deepEqual(after.filter(missing).map(nameOf), ['rel-asset-update']);
      const [service] = after.filter(missing);
      assert.ok(
        service && ofKind(after, 'Deployment').some((one) => nameOf(one).endsWith(`-${roleOf(service)}`)),
      );
    }
  });

  it('leaves Temporal’s address to a Secret, or to a profile of Temporal’s client', async () => {
    const file = 'config.TEMPORAL_CONFIG_FILE=/etc/temporal/config.toml';
    const secret = (name: string) => `secretEnv.${name}.name=a,secretEnv.${name}.key=b`;
    for (const [set, expected] of [
      ['', 'temporal-frontend:7233'],
      ['config.TEMPORAL_ADDRESS=a:1', 'a:1'],
      ['config.TEMPORAL_PROFILE=cloud', undefined],
      [file, undefined],
      [secret('TEMPORAL_PROFILE'), undefined],
      [secret('TEMPORAL_ADDRESS'), 'of the Secret'],
    ] as const) {
      const manifests = await rendered('--set', set);
      const [container] = podsOf(manifests).get('all')?.containers ?? assert.fail();
      const named = environmentOf(container, { TEMPORAL_ADDRESS: 'of the Secret' });
      assert.deepEqual([named.TEMPORAL_ADDRESS, named.TEMPORAL_NAMESPACE], [expected, undefined], set);
      const peers = ofKind(manifests, 'NetworkPolicy')[0]?.spec.egress[2]?.to;
      assert.deepEqual(peers, [expected?.includes(':') ? inOwn : inAny], set);
    }
  });

  it('refuses a name that no Service can have', async () => {
    for (const name of ['1st', 'a.b'])
      await assert.rejects(helm('template', name, chartDir), /can name no Service: .* Set fullnameOverride/);
    await helm('template', '1st', chartDir, '--set', 'fullnameOverride=first');
  });

  it('lets the Pods reach the stores that the README’s installation names, each in its namespace', async () => {
    const set = readFileSync(join(chartDir, 'README.md'), 'utf8').match(/--set config\.\S+/g) ?? [];
    assert.equal(set.length, 2);
    const range = { ipBlock: { cidr: '10.9.0.0/24' } };
    const cases: [string[], unknown[]][] = [
      [set, [[inNamespace('redis')], [inNamespace('temporal')]]],
      [[], [[inOwn], [inOwn]]],
      [['--set config.REDIS_URL=redis+cluster://a.stores.svc:6379'], [[inNamespace('stores')], [inOwn]]],
      // A Service in a namespace, or a Pod of a Service in the release's own.
      [[`-f ${chartDir}/examples/redis-cluster.yaml`], [[inOwn, inNamespace('redis-cluster')], [inOwn]]],
      [['--set config.TEMPORAL_ADDRESS=temporal.a:7233'], [[inOwn], [inOwn, inNamespace('a')]]],
      [['--set config.TEMPORAL_ADDRESS=a.b.tmprl.cloud:7233'], [[inOwn], [inAny]]],
      [['--set config.REDIS_URL=null'], [[inAny], [inOwn]]],
      [['--set networkPolicy.redisTo[0].ipBlock.cidr=10.9.0.0/24'], [[range], [inOwn]]],
    ];
    for (const [given, expected] of cases) {
      const args = given.flatMap((one) => one.split(' '));
      const peers = (await policyOf(...args))?.egress.slice(1, 3).map(({ to }) => to);
      assert.deepEqual(peers, expected, String(given));
    }
  });

  it('takes names that look like numbers and flags', async () => {
    const named = 'secretEnv.SECRETS_KEY.name=123,secretEnv.SECRETS_KEY.key=yes,secretFiles[0].name=1e3';
    const text = await helm(
      ...['template', '1', chartDir, '--namespace', '2026', '--set', 'fullnameOverride=a'],
      ...[
        '--set-string',
        `${named},secretFiles[0].mountPath=/a,priorityClassName=true,serviceAccount.name=007`,
      ],
    );
    await kubeconform(text, kubernetesVersions.at(-1) ?? '');
  });

  it('lets the Pods reach the port that the address of a store names', async () => {
    for (const [value, ports] of [
      ['config.REDIS_URL=redis://redis:6380,config.TEMPORAL_ADDRESS=temporal:443', [6380, 443]],
      ['config.REDIS_URL=redis://redis:6380/2,config.TEMPORAL_ADDRESS=temporal', [6380, 7233]],
      ['config.REDIS_URL=redis+cluster://a:7000\\,b:7000', [7000, 7233]],
      ['config.REDIS_URL=redis+sentinel://a:26379\\,b:26379/main/0', [6379, 7233]],
      ['config.REDIS_URL=null,networkPolicy.temporalPort=7000', [6379, 7000]],
    ] as const) {
      const named = (await policyOf('--set', value))?.egress.slice(1, 3).map((rule) => rule.ports?.[0]?.port);
      assert.deepEqual(named, ports, value);
    }
  });

  it('refuses a secret in config, a setting in two places and an unknown value', async () => {
    // Which settings may carry a secret, and which hosts are loopback, the schema says: values.test.ts.
    const wrong = [
      ['config.SECRETS_KEY=k1:x', /SECRETS_KEY/],
      ['secretEnv.PORT.name=a,secretEnv.PORT.key=b', /PORT is in config and in secretEnv/],
      ['secretEnv.SECRETS_KEY=x', /SECRETS_KEY/],
      ['config.NOPE=1', /NOPE/],
      ['config.WORKFLOWS_PER_SECOND=abc', /WORKFLOWS_PER_SECOND/],
      ['secretEnv.SECRET_KEY.name=a,secretEnv.SECRET_KEY.key=b', /SECRET_KEY/],
      ['fullnameOverride=UPPER', /fullnameOverride/],
      ['all.autoscaling.enabled=true,all.autoscaling.minReplicas=9', /minReplicas is above maxReplicas/],
      ['config.ADMIN_PORT=3000', /PORT and config.ADMIN_PORT are the same/],
      ['config.SHUTDOWN_DELAY_SECONDS=600', /SHUTDOWN_DELAY_SECONDS/],
      ['keda.enabled=true', /keda/],
      ['shapes=all', /shapes/],
      ['nameOverride=other', /nameOverride/],
      ['image.digest=sha256:short', /digest/],
    ] as const;
    for (const [value, message] of wrong) await assert.rejects(rendered('--set', value), message, value);
  });

  it('allows connections to the addresses that an operator allowed, and from the peers that they name', async () => {
    const policy = await policyOf(
      '--set=config.ALLOWED_TARGET_CIDRS=10.1.0.0/16\\, 10.2.0.0/16',
      '--set=networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus',
    );
    const receivers = policy?.egress.at(-1)?.to.map((to) => to.ipBlock?.cidr);
    assert.deepEqual(receivers, ['0.0.0.0/0', '2000::/3', '64:ff9b::/96', '10.1.0.0/16', '10.2.0.0/16']);
    assert.deepEqual(policy?.ingress.at(-1), {
      ports: [{ port: 'admin', protocol: 'TCP' }],
      from: [{ podSelector: { matchLabels: { app: 'prometheus' } } }],
    });
  });
});
