import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../../local/ports.js';
import { ApiError, presentProblem } from '../../src/api/apiError.js';
import { until } from '../receiver.js';

const config = 'deploy/haproxy/haproxy.cfg';

describe('deploy/haproxy/haproxy.cfg', () => {
  let dir: string;
  let balancer: ChildProcess | undefined;

  before(async function () {
    if (spawnSync('haproxy', ['-v'], { stdio: 'ignore' }).status !== 0) this.skip();
    dir = await mkdtemp(join(tmpdir(), 'asset-update-haproxy-'));
  });
  afterEach(async () => {
    balancer?.kill();
    if (balancer?.exitCode === null) await once(balancer, 'exit');
    balancer = undefined;
  });
  after(async () => {
    if (dir) await rm(dir, { recursive: true, force: true });
  });

  /** Starts HAProxy before these processes; resolves once one of them is ready. */
  async function start(services: readonly number[], changed = (text: string) => text) {
    const [port, healthPort] = [await freePort(), await freePort()];
    const file = join(dir, 'haproxy.cfg');
    await writeFile(file, changed(await configFor(port, healthPort, services)));
    balancer = spawn('haproxy', ['-db', '-q', '-f', file], { stdio: 'ignore' });
    const health = async () => (await fetch(`http://127.0.0.1:${healthPort}/`)).status;
    await until('a process is ready', async () => (await health().catch(() => 0)) === 200);
    return { port, health };
  }

  it('is accepted by HAProxy', async () => {
    await promisify(execFile)('haproxy', ['-c', '-f', config]);
  });

  it('sends callers to ready processes, with their address', async () => {
    const [one, other] = [await startProcess(), await startProcess()];
    const { port, health } = await start([one.port, other.port]);
    const call = async () => (await fetch(`http://127.0.0.1:${port}/enrichments?access_token=x`)).text();
    const answers = new Set<string>();
    await until('both are called', async () => answers.add(await call()).size === 2);
    assert.deepEqual(
      [...answers].sort(),
      [`${one.port} for 127.0.0.1`, `${other.port} for 127.0.0.1`].sort(),
    );

    one.ready = false;
    // Two failures take it out; the third look is after that.
    await until('it is out', () => one.askedWhileNotReady >= 3);
    const later = new Set(await Promise.all(Array.from({ length: 20 }, call)));
    assert.deepEqual([...later], [`${other.port} for 127.0.0.1`]);

    other.ready = false;
    await until('nobody is ready', async () => (await health()) === 503);
  });

  it('closes a connection that is slow with the head of a request, and answers 429 to an address with too many requests', async () => {
    const one = await startProcess();
    const { port } = await start([one.port], (text) =>
      text
        .replace('timeout http-request 10s', 'timeout http-request 300ms')
        .replace('sc0_http_req_rate gt 10000', 'sc0_http_req_rate gt 20'),
    );
    const slow = connect(port, '127.0.0.1');
    slow.write('GET / HTTP/1.1\r\nhost: x\r\n');
    const [answer] = (await once(slow, 'data')) as [Buffer];
    assert.match(String(answer), /^HTTP\/1\.1 408 /);
    slow.destroy();
    const answers: Response[] = [];
    for (let i = 0; i < 30; i++) answers.push(await fetch(`http://127.0.0.1:${port}/clients`));
    const refused = answers.at(-1);
    assert.deepEqual([answers[0]?.status, refused?.status], [200, 429]);
    const problem = (await refused?.json()) as Record<string, string>;
    const err = new ApiError('too_many_requests', 'Too many requests from this address');
    assert.deepEqual(problem, presentProblem(err, '/', problem.request_id ?? ''));
    assert.match(problem.request_id ?? '', /^[0-9a-f-]{36}$/);
    assert.equal(refused?.headers.get('retry-after'), '10');
  });
});

/** Returns the configuration with processes of this machine instead of Docker's names. */
async function configFor(port: number, healthPort: number, services: readonly number[]): Promise<string> {
  const servers = services.map((one, i) => `server service-${i + 1} 127.0.0.1:${one}`).join('\n    ');
  return (await readFile(config, 'utf8'))
    .replace('maxconn 16000', 'maxconn 400')
    .replace(/^resolvers docker\n( .*\n)*/m, '')
    .replace(' resolvers docker init-addr none', '')
    .replace('bind :3000', `bind 127.0.0.1:${port}`)
    .replace('bind :8404', `bind 127.0.0.1:${healthPort}`)
    .replace(/server-template all .*/, servers)
    .replace(/ *server-template api .*\n?/, '');
}

/** It keeps no process from its end. */
async function startProcess() {
  const server = createServer((req, res) => {
    if (req.url === '/readyz') {
      if (!it.ready) it.askedWhileNotReady++;
      res.writeHead(it.ready ? 200 : 503).end();
    } else res.end(`${it.port} for ${req.headers['x-forwarded-for']}`);
  });
  server.on('connection', (socket) => socket.unref()).unref();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const it = { port: (server.address() as AddressInfo).port, ready: true, askedWhileNotReady: 0 };
  return it;
}
