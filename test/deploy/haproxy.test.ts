import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { parse } from 'yaml';
import { freePort } from '../../local/ports.js';
import { ApiError, presentProblem } from '../../src/http/apiError.js';
import { type ErrorCode, errors } from '../../src/http/errors.js';
import { callRaw } from '../api/rawCaller.js';
import { startProgram } from '../program.js';
import { portOf, until } from '../receiver.js';
import { newFolder, opened } from '../servers.js';
import { run } from '../tools.js';

const config = 'deploy/haproxy/haproxy.cfg';

describe('deploy/haproxy/haproxy.cfg', () => {
  before(function () {
    if (spawnSync('haproxy', ['-v'], { stdio: 'ignore' }).status !== 0) this.skip();
  });

  /** Starts HAProxy before these processes; resolves once one of them is ready. */
  async function start(services: readonly number[], changed = (text: string) => text) {
    const [port, healthPort, adminPort] = [await freePort(), await freePort(), await freePort()] as const;
    const file = join(await newFolder(), 'haproxy.cfg');
    await writeFile(file, changed(await configFor([port, healthPort, adminPort], services)));
    const balancer = opened(startProgram('haproxy', ['-db', '-f', file]));
    const health = async () => (await fetch(`http://127.0.0.1:${healthPort}/`)).status;
    await until('a process is ready', async () => (await health().catch(() => 0)) === 200);
    return { port, healthPort, adminPort, health, said: () => balancer.stdout };
  }

  it('is accepted by HAProxy', async () => {
    await run('haproxy', ['-c', '-f', config]);
  });

  it('fits into the memory of its container when every connection fills its buffers', async () => {
    const [text, compose] = [await readFile(config, 'utf8'), await readFile('docker-compose.yml', 'utf8')];
    const numberOf = (name: string) => Number(new RegExp(`^ +${name} (\\d+)$`, 'm').exec(text)?.[1]);
    const { services } = parse(compose, { merge: true });
    const [, gigabytes] = /^(\d+)G$/.exec(services.balancer.deploy.resources.limits.memory) ?? [];
    const connectionBytes = 2 * numberOf('tune.bufsize') + 8 * 1024;
    assert.ok(numberOf('maxconn') * connectionBytes < Number(gigabytes) * 2 ** 30);
  });

  it('sends callers to ready processes, with their address', async () => {
    const [one, other] = [await startProcess(), await startProcess()];
    const { port, health } = await start([one.port, other.port]);
    const call = async () => (await fetch(`http://127.0.0.1:${port}/enrichments?access_token=x`)).text();
    const answers = new Set<string>();
    await until('both are called', async () => answers.add(await call()).size === 2);
    const both = [one, other].map(({ port }) => `${port} for 127.0.0.1`);
    assert.deepEqual([...answers].sort(), both.sort());

    one.ready = false;
    // Two failures take it out; the third look is after that.
    await until('it is out', () => one.askedWhileNotReady >= 3);
    const later = new Set(await Promise.all(Array.from({ length: 20 }, call)));
    assert.deepEqual([...later], [`${other.port} for 127.0.0.1`]);

    other.ready = false;
    await until('nobody is ready', async () => (await health()) === 503);
  });

  it('leads operators to the desk, also while no process is ready, and nobody to the metrics', async () => {
    const one = await startProcess();
    const { adminPort } = await start([one.port]);
    one.ready = false;
    await until('it is asked', () => one.askedWhileNotReady >= 3);
    const statusOf = async (path: string) => (await fetch(`http://127.0.0.1:${adminPort}${path}`)).status;
    const pages = ['/desk', '/desk/do/audit', '/docs/errors', '/runbook'];
    for (const path of [...pages, '/operator/status', '/console/assets/console.css'])
      assert.equal(await statusOf(path), 200, path);
    for (const path of ['/metrics', '/readyz', '/']) assert.equal(await statusOf(path), 404, path);
  });

  it('bounds no address: a stranger costs nobody a refusal', async () => {
    const one = await startProcess();
    const { port } = await start([one.port]);
    const statuses = new Set<number>();
    for (let i = 0; i < 20; i++) {
      const calls = Array.from({ length: 100 }, () => fetch(`http://127.0.0.1:${port}/clients`));
      for (const { status } of await Promise.all(calls)) statuses.add(status);
    }
    assert.deepEqual([...statuses], [200]);
  });

  it('answers like the service where it answers itself, and logs that without a query', async () => {
    const one = await startProcess();
    const { port, health, said } = await start([one.port], (text) =>
      text.replace('timeout http-request 10s', 'timeout http-request 300ms'),
    );
    const head = (text: string) => callRaw(`http://127.0.0.1:${port}`, text).closed;
    assert.match(await head('GET / HTTP/1.1\r\nhost: x\r\n'), /^HTTP\/1\.1 408 /);
    const broken = await head('GET /break HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n');
    isProblem(broken, 'temporarily_unavailable', 502);
    one.ready = false;
    await until('nobody is ready', async () => (await health()) === 503);
    const none = await head(
      'GET /clients?access_token=secret HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n',
    );
    isProblem(none, 'temporarily_unavailable');
    assert.match(none, /^retry-after: 2\r$/im);
    const odd = '/odd\\"';
    await head(`GET ${odd} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`);
    await until('both are in the log', async () => {
      const lines = [...said().matchAll(/^\{.*"status":503.*$/gm)].map(([line]) => JSON.parse(line).path);
      return lines.includes('/clients') && lines.includes(odd);
    });
    assert.ok(!said().includes('secret'));
  });

  it('shows what it did to whoever asks in its container', async () => {
    const one = await startProcess();
    const { healthPort } = await start([one.port]);
    assert.match(await (await fetch(`http://127.0.0.1:${healthPort}/stats`)).text(), /Statistics Report/);
  });
});

/** Asserts that an answer is the error of this code, for the calls under /oauth as well. */
function isProblem(answer: string, code: ErrorCode, status: number = errors[code].status): void {
  const [head = '', body = ''] = answer.split('\r\n\r\n');
  assert.match(head, new RegExp(`^HTTP/1\\.1 ${status} `));
  const { error, error_description, request_id, ...problem } = JSON.parse(body) as Record<string, string>;
  const err = new ApiError(code, problem.msg ?? '');
  const { request_id: _, ...expected } = presentProblem(err, '/', '');
  assert.deepEqual(problem, expected);
  assert.deepEqual({ error, error_description }, presentProblem(err, '/oauth/access_token', ''));
  assert.match(request_id ?? '', /^[0-9a-f-]{36}$/);
}

/** Returns the configuration with processes of this machine instead of Docker's names. */
async function configFor([port, healthPort, adminPort]: readonly number[], services: readonly number[]) {
  const servers = services.map((one, i) => `server service-${i + 1} 127.0.0.1:${one}`).join('\n    ');
  return (await readFile(config, 'utf8'))
    .replace(/maxconn \d+/, 'maxconn 400')
    .replace(/^resolvers docker\n( .*\n)*/m, '')
    .replaceAll(' resolvers docker init-addr none', '')
    .replace('bind :3000', `bind 127.0.0.1:${port}`)
    .replace('bind :8404', `bind 127.0.0.1:${healthPort}`)
    .replace('bind :9464', `bind 127.0.0.1:${adminPort}`)
    .replaceAll(/server-template all .*/g, servers);
}

/** It keeps no process from its end. */
async function startProcess() {
  const server = createServer((req, res) => {
    if (req.url === '/readyz') {
      if (!it.ready) it.askedWhileNotReady++;
      res.writeHead(it.ready ? 200 : 503).end();
    } else if (req.url === '/break') req.socket.destroy();
    else res.end(`${it.port} for ${req.headers['x-forwarded-for']}`);
  });
  server.on('connection', (socket) => socket.unref()).unref();
  const it = { port: await portOf(server), ready: true, askedWhileNotReady: 0 };
  return it;
}
