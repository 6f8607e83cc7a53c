import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { demoAccount } from '../../local/demoAccount.js';
import { freePort, PortPlan } from '../../local/ports.js';
import type { RunState } from '../../local/runState.js';
import { startProgram } from '../program.js';
import { portOf } from '../receiver.js';
import { afterTest, opened } from '../servers.js';
import { run } from '../tools.js';
import { newProject, ownPorts } from './startedProject.js';

const operatorProgram = 'dist/src/operator/main.js';

const node = async (args: string[], environment?: NodeJS.ProcessEnv) =>
  (await run(process.execPath, args, { env: { ...process.env, ...environment } })).stdout;

describe('npm start', () => {
  const open = async (ports?: NodeJS.ProcessEnv) => {
    const project = await newProject(ports);
    afterTest(project.remove);
    return project;
  };

  it('starts everything; continues where it stopped, also after kill -9 of the supervisor, which leaves nothing running; runs beside another one, but once in a folder; ends its others with the reason when one ends; Ctrl-C stops all of it in order', async () => {
    // Blank is not set.
    const blank = { REDIS_URL: ' ', TEMPORAL_ADDRESS: '\n', SECRETS_KEY: ' \n' };
    const project = await open({ ...(await ownPorts()), ...blank });
    const { apiUrl, environment, program } = await project.start();
    assert.match(`${environment?.SECRETS_KEY}`, /^k1:/);
    const mode = (name: string) => statSync(join(project.dir, name)).mode & 0o777;
    assert.equal((await fetch(`${apiUrl}/readyz`)).status, 200);
    assert.equal((await fetch(`${environment?.TEMPORAL_UI_URL}`)).status, 200);
    assert.match(program.said(), /notifications may go to http and to 127\.0\.0\.0\/8/);
    const link = /^(http:\S+\/console\/open)#[A-Za-z0-9_-]{43}$/m.exec(program.said());
    assert.equal(link?.[1], `${apiUrl}/console/open`);
    assert.deepEqual(['demo.json', 'secrets-key', 'run.json'].map(mode), [0o600, 0o600, 0o600]);

    const played = await node(['local/launch.mjs', 'demo'], { DATA_DIR: project.dir });
    for (const says of [
      /\/register_push_notifications\n {3}200 http:\/\/127\.0\.0\.1:\d+\/notifications$/m,
      /\/enrichments\n {3}202 \{.*"notification":"queued"/,
      /^ {3}webhook-signature: v1,\S+\n(?: {3}webhook-.*\n)+ {3}\{"event":"asset-update",.*\}\n7\. .*it matches\.$/m,
    ])
      assert.match(played, says);
    const next = [...played.matchAll(/^ {2}npm run -s operator -- (.*)$/gm)].map(([, words]) => `${words}`);
    assert.match(next.join(), /^notification show msg_\S+,explain \S+ video-1,client delete demo-\w+$/);
    const runs = (words = '') => node([operatorProgram, ...words.split(' ')], environment);
    await Promise.all(next.slice(0, -1).map(runs));
    await runs(next.at(-1));

    const demo = readFileSync(join(project.dir, 'demo.json'), 'utf8');
    await program.stop('SIGKILL');
    const { program: second, ...other } = await project.start();
    const left = project.stillRunning().length;
    assert.equal(left, 4, 'a supervisor and three children, all of the second start');
    assert.equal(readFileSync(join(project.dir, 'demo.json'), 'utf8'), demo, 'seeded once');
    const said: string[] = [];
    const account = () =>
      demoAccount(project.dir, String(apiUrl), { ...environment }, (line) => said.push(line));
    assert.deepEqual([await account(), said], [JSON.parse(demo), []]);
    const id = JSON.parse(demo).platform.client_id.replace('cid_', 'acc_');
    await node([operatorProgram, 'account', 'rotate-secret', id, '--now'], environment);
    const { clientToken } = await account();
    assert.match(`${said}`, new RegExp(`no longer accepts .*demo.json: .* with the client ${clientToken}$`));

    await runsBeside(other);
    assert.equal(await second.stop('SIGINT'), 0);
    const order = /stopping: SIGINT\s+service stopped\s+temporal stopped\s+redis stopped\s+stopped/;
    assert.match(second.said(), order);
    assert.deepEqual(project.stillRunning(), []);
    const demoAlone = node(['local/launch.mjs', 'demo'], { DATA_DIR: project.dir });
    await assert.rejects(demoAlone, /The demo needs a running service: npm start\n$/);
  });

  async function runsBeside(one: RunState): Promise<void> {
    const project = await open();
    const { program, supervisor, children, environment } = await project.start();
    for (const server of ['REDIS_URL', 'TEMPORAL_ADDRESS'])
      assert.notEqual(one.environment?.[server], environment?.[server]);
    const again = project.launch();
    assert.equal(await again.ended, 1);
    assert.match(again.said(), new RegExp(`already runs .*process ${supervisor.pid}`));

    const [first] = children;
    assert.ok(first);
    process.kill(first.pid, 'SIGKILL');
    assert.equal(await program.ended, 1);
    assert.match(program.said(), /stopping: (redis|temporal|service) ended: killed by SIGKILL/);
    const last =
      /\n\n(redis|temporal|service) ended: killed by SIGKILL\nThe data in \S+ is kept for the next "npm start"\.\n$/;
    assert.match(program.said(), last);
    assert.doesNotMatch(program.said(), /had to be killed/, 'the others end by themselves');
    assert.deepEqual(project.stillRunning(), []);
    assert.equal((await fetch(`${one.apiUrl}/readyz`)).status, 200, 'the other one goes on');
  }

  it('names in one line what it cannot write in its folder, and leaves no lock behind, which would block every later start', async () => {
    for (const [before, says] of [
      // No file may have a byte.
      ['ulimit -f 0', 'EFBIG: '],
      ['touch .cache', 'EEXIST: .*\\.cache'],
      ['true', 'ENOENT: .*package-lock\\.json'],
      // Left before a reboot, after which another process has the pid.
      [`mkdir .cache; echo ${process.pid} boot 1 > .cache/launch.lock`, 'ENOENT: .*package-lock\\.json'],
    ] as const) {
      const { dir } = await open();
      for (const name of ['local/launch.mjs', 'package.json']) cpSync(name, join(dir, name));
      const build = ['-c', `${before}; exec node local/launch.mjs build`];
      const program = startProgram('sh', build, { cwd: dir });
      assert.equal(await program.ended, 1);
      assert.match(program.said(), new RegExp(`^This folder cannot be prepared: ${says}.*\n$`));
      const files = readdirSync(dir, { recursive: true, encoding: 'utf8' });
      assert.deepEqual(
        files.filter((name) => /lock/.test(name)),
        [],
      );
    }
  });

  it('says that a command runs from a dist of other sources', async () => {
    const { dir } = await open();
    for (const name of ['local/launch.mjs', 'package.json', 'tsconfig.json', 'package-lock.json'])
      cpSync(name, join(dir, name));
    mkdirSync(join(dir, 'dist/src/operator'), { recursive: true });
    writeFileSync(join(dir, 'dist/src/operator/main.js'), 'console.log("ran")');
    const program = startProgram(process.execPath, ['local/launch.mjs', 'operator'], { cwd: dir });
    assert.equal(await program.ended, 0);
    assert.match(program.said(), /^ {2}dist is not built from these sources: npm run build$/m);
  });

  it('says that its disk is full', async function () {
    if (spawnSync('unshare', ['-rm', 'true']).status !== 0) this.skip();
    const { launch } = await open();
    const mount = 'mount -t tmpfs -o size=64k tmpfs "$DATA_DIR" && exec "$@"';
    const program = launch('unshare', '-rm', 'sh', '-c', mount, 'sh');
    assert.equal(await program.ended, 1);
    // Whichever writes first.
    const says =
      /^(temporal ended: exit status 1, and its disk has less than 1 MiB left|The disk of \S+ is full)$/m;
    assert.match(program.said(), says);
  });

  it('ends where the key of its secrets is an empty file, which would store them in plain text', async () => {
    const { dir, launch } = await open();
    writeFileSync(join(dir, 'secrets-key'), '\n');
    const program = launch();
    assert.equal(await program.ended, 1);
    assert.match(program.said(), /secrets-key is empty: restore it/);
  });

  it('says what the service waits for', async () => {
    const { launch } = await open({ REDIS_URL: 'redis://127.0.0.1:1', TEMPORAL_ADDRESS: '127.0.0.1:1' });
    const program = launch();
    await program.says(/Redis does not answer.* correct REDIS_URL/);
    await program.says(/Temporal does not serve yet/);
  });
});

it('starts at the same moment take different ports, and say which', async () => {
  const usual = await freePort();
  const said: string[] = [];
  const starts = Array.from({ length: 8 }, () => new PortPlan((line) => said.push(line)));
  const ports = await Promise.all(starts.map((plan) => plan.preferably('PORT_OF_NOTHING', usual)));
  assert.equal(new Set(ports).size, ports.length);
  assert.deepEqual([ports.includes(usual), said.length], [true, ports.length - 1]);
});

it('of starts at the same moment that ask for one port, one has it, and the others say that it is taken, as where a server listens', async () => {
  const port = await freePort();
  const listening = await portOf(opened(createServer()));
  const late = new PortPlan(() => {}).exactly('PORT', listening, '127.0.0.1');
  await assert.rejects(late, new RegExp(`port ${listening} is taken`));
  const starts = Array.from({ length: 8 }, () => new PortPlan(() => {}).exactly('PORT', port, '127.0.0.1'));
  const outcomes = await Promise.allSettled(starts);
  const refused = outcomes.filter((one) => one.status === 'rejected');
  assert.equal(refused.length, starts.length - 1);
  assert.match(String(refused[0]?.reason), new RegExp(`port ${port} is taken`));
});
