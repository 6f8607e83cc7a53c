import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { StartedProject } from './startedProject.js';

describe('npm start', () => {
  let project: StartedProject;
  beforeEach(async () => {
    project = await StartedProject.inNewFolder();
  });
  afterEach(() => project.remove());

  it('starts everything; continues where it stopped, also after kill -9 of the supervisor, which leaves nothing running; Ctrl-C stops all of it in order', async () => {
    const state = await project.start();
    const mode = (name: string) => statSync(join(project.dir, name)).mode & 0o777;
    assert.equal((await fetch(`${state.apiUrl}/readyz`)).status, 200);
    assert.equal((await fetch(`${state.temporalUiUrl}`)).status, 200);
    assert.match(project.output, /notifications may go to http and to 127\.0\.0\.0\/8/);
    const link = /^(http:\S+\/console\/open)#[A-Za-z0-9_-]{43}$/m.exec(project.output);
    assert.equal(link?.[1], `${state.apiUrl}/console/open`);
    assert.deepEqual(['demo.json', 'secrets-key', 'run.json'].map(mode), [0o600, 0o600, 0o600]);

    const demo = readFileSync(join(project.dir, 'demo.json'), 'utf8');
    await project.signal('SIGKILL');
    await project.start();
    assert.equal(
      project.stillRunning().length,
      4,
      'a supervisor and three children, all of the second start',
    );
    assert.equal(readFileSync(join(project.dir, 'demo.json'), 'utf8'), demo, 'seeded once');
    const { client_id, client_secret } = JSON.parse(demo).publisher;
    const form = { grant_type: 'none', scope: 'push_notifications', client_id, client_secret };
    const answer = await fetch(`${state.apiUrl}/oauth/access_token`, {
      method: 'POST',
      body: new URLSearchParams(form),
    });
    assert.equal(answer.status, 200);

    assert.equal(await project.signal('SIGINT'), 0);
    assert.match(
      project.output,
      /stopping: SIGINT\s+service stopped\s+temporal stopped\s+redis stopped\s+stopped/,
    );
    assert.deepEqual(project.stillRunning(), []);
  });

  it('runs beside another one, but once in a folder; when a child ends, it ends its others and names the reason', async () => {
    await project.remove();
    project = await StartedProject.onUsualPorts();
    const other = await StartedProject.onUsualPorts();
    try {
      const one = await project.start();
      const two = await other.start();
      assert.notEqual(one.redisUrl, two.redisUrl);
      assert.notEqual(one.temporalAddress, two.temporalAddress);
      assert.equal((await fetch(`${one.apiUrl}/readyz`)).status, 200);
      assert.equal((await fetch(`${two.apiUrl}/readyz`)).status, 200);

      const again = new StartedProject(project.dir, project.port);
      assert.equal(await again.launch(), 1);
      assert.match(again.output, new RegExp(`already runs .*process ${one.supervisor.pid}`));

      const [first] = one.children;
      assert.ok(first);
      process.kill(first.pid, 'SIGKILL');
      assert.equal(await project.ended(), 1);
      assert.match(project.output, /stopping: (redis|temporal|service) ended: killed by SIGKILL/);
      assert.doesNotMatch(project.output, /had to be killed/, 'the others end by themselves');
      assert.deepEqual(project.stillRunning(), []);
      assert.equal((await fetch(`${two.apiUrl}/readyz`)).status, 200, 'the other one goes on');

      assert.equal(await other.signal('SIGTERM'), 0);
      assert.deepEqual(other.stillRunning(), []);
    } finally {
      await other.remove();
    }
  });

  it('says which port is taken', async () => {
    const taken = createServer().listen(project.port, '127.0.0.1');
    try {
      assert.equal(await project.launch(), 1);
      assert.match(project.output, new RegExp(`port ${project.port} is taken`));
    } finally {
      taken.close();
    }
  });
});
