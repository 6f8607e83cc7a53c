/** As much of an API server of Kubernetes as Helm asks for a `lookup`: it knows the number of Pods of some Deployments. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { opened } from '../../servers.js';

const kinds: Record<string, string[]> = {
  '/api/v1': ['Service', 'ServiceAccount'],
  '/apis/apps/v1': ['Deployment'],
  '/apis/autoscaling/v2': ['HorizontalPodAutoscaler'],
  '/apis/networking.k8s.io/v1': ['NetworkPolicy'],
  '/apis/policy/v1': ['PodDisruptionBudget'],
};
const groups = Object.keys(kinds).flatMap((path) => {
  const [, name, version] = /^\/apis\/(.*)\/(.*)$/.exec(path) ?? [];
  return name ? [{ name, versions: [{ groupVersion: `${name}/${version}`, version }] }] : [];
});

function answerTo(path: string, replicas: Record<string, number>): object | undefined {
  if (path === '/version') return { major: '1', minor: '37', gitVersion: 'v1.37.0' };
  if (path === '/api') return { kind: 'APIVersions', versions: ['v1'] };
  if (path === '/apis') return { kind: 'APIGroupList', groups };
  const resources = kinds[path]?.map((kind) => ({ name: `${kind.toLowerCase()}s`, kind, namespaced: true }));
  if (resources) return { kind: 'APIResourceList', groupVersion: path.replace(/^\/apis?\//, ''), resources };
  const name = /^\/apis\/apps\/v1\/namespaces\/default\/deployments\/(.*)$/.exec(path)?.[1] ?? '';
  if (replicas[name] === undefined) return;
  return {
    kind: 'Deployment',
    apiVersion: 'apps/v1',
    metadata: { name },
    spec: { replicas: replicas[name] },
  };
}

/** @returns the arguments with which Helm renders an upgrade in a cluster that has these Deployments in the namespace `default` */
export async function clusterWith(replicas: Record<string, number>): Promise<string[]> {
  const server = createServer((req, res) => {
    const answer = answerTo(new URL(req.url ?? '', 'http://cluster').pathname, replicas);
    res.writeHead(answer ? 200 : 404, { 'content-type': 'application/json' });
    res.end(JSON.stringify(answer ?? { kind: 'Status', apiVersion: 'v1', code: 404, reason: 'NotFound' }));
  }).listen(0, '127.0.0.1');
  opened(server);
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return ['--is-upgrade', '--dry-run=server', '--disable-openapi-validation', '--kube-apiserver', url];
}
