/** What is given away of the clients, in a folder or a virtual environment that has nothing else. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { projectDir } from '../../src/operator/npmStart.js';
import { startProgram } from '../program.js';
import { newFolder } from '../servers.js';
import { run } from '../tools.js';
import { usePublishedTo } from './service.js';

const npmInstall = ['install', '--ignore-scripts', '--no-audit', '--no-fund'];

describe('the packages of the clients', function () {
  this.timeout(180_000);
  let dir: string;
  const to = usePublishedTo();
  before(async () => {
    dir = await newFolder();
  });

  /** Copies a client without what others have made in its folder. @returns the copy, and an empty folder */
  async function copied(name: string): Promise<[copy: string, empty: string]> {
    const copy = join(dir, `${name}-source`);
    const filter = (path: string) => !/\/(node_modules|dist|build|__pycache__|[^/]+\.egg-info)$/.test(path);
    await cp(join(projectDir, 'clients', name), copy, { recursive: true, filter });
    const empty = join(dir, name);
    await mkdir(empty);
    return [copy, empty];
  }

  /** Makes the package as the client's README says, and installs it. @returns the folder with node_modules */
  async function installed(name: string): Promise<string> {
    const [copy, empty] = await copied(name);
    const { scripts } = JSON.parse(await readFile(join(copy, 'package.json'), 'utf8'));
    if (scripts) await run('npm', [...npmInstall, '--no-package-lock'], { cwd: copy });
    await run('npm', ['pack', '--pack-destination', empty], { cwd: copy });
    const [packed = ''] = await readdir(empty);
    await run('npm', [...npmInstall, `./${packed}`], { cwd: empty });
    return empty;
  }

  it('of clients/node publishes an event, and its process ends by itself', async () => {
    const folder = await installed('node');
    const { client_id: clientId, client_secret: clientSecret } = to.account;
    await writeFile(
      join(folder, 'publish.mjs'),
      `import { EnrichmentsClient } from 'asset-update-client';
const client = new EnrichmentsClient(${JSON.stringify({ url: to.api.url, clientId, clientSecret })});
console.log((await client.send(${JSON.stringify(to.event(1))})).notification);
await client.close();`,
    );
    const { stdout } = await run(process.execPath, ['publish.mjs'], { cwd: folder });
    assert.equal(stdout, 'queued\n');
  });

  it('of clients/listen listens, and answers a bad signature 401', async () => {
    const cwd = await installed('listen');
    const env = { SIGNING_SECRETS: `whsec_${Buffer.alloc(32, 1).toString('base64')}` };
    const listen = startProgram('node_modules/.bin/asset-update-listen', ['--port', '0'], { cwd, env });
    try {
      let url = '';
      await listen.until('it listens', async () => {
        [url = ''] = /http:\/\/[\d.:]+/.exec(listen.said()) ?? [];
        return url;
      });
      assert.equal((await fetch(url, { method: 'POST', body: '{}' })).status, 401);
    } finally {
      await listen.stop('SIGINT');
    }
  });

  it('of clients/python is typed, and publishes an event', async function () {
    if (spawnSync('python3', ['-m', 'pip', '--version'], { stdio: 'ignore' }).status !== 0) this.skip();
    const [copy, empty] = await copied('python');
    const quiet = ['--quiet', '--disable-pip-version-check'];
    await run('python3', ['-m', 'pip', 'wheel', ...quiet, '--no-deps', '-w', empty, copy]);
    const [wheel = ''] = await readdir(empty);
    const home = join(empty, 'venv');
    await run('python3', ['-m', 'venv', '--without-pip', home]);
    const install = ['--python', home, 'install', ...quiet, '--no-index', join(empty, wheel)];
    await run('python3', ['-m', 'pip', ...install]);
    const typed =
      'import asset_update_client, pathlib; print(pathlib.Path(asset_update_client.__file__).with_name("py.typed").exists())';
    assert.equal((await run(join(home, 'bin/python'), ['-c', typed])).stdout, 'True\n');

    const { client_id: CLIENT_ID, client_secret: CLIENT_SECRET } = to.account;
    const publish = join(home, 'bin/asset-update-publish');
    const without = { ...process.env, CLIENT_ID: '', CLIENT_SECRET: '' };
    for (const [args, env, status, says] of [
      [['--help'], without, 0, ''],
      [[to.api.url], without, 2, /^CLIENT_ID=/],
      [[], { CLIENT_ID, CLIENT_SECRET }, 2, /^CLIENT_ID=/],
      [[to.api.url], { CLIENT_ID, CLIENT_SECRET }, 1, /^there are no events/],
    ] as const) {
      const ran = spawnSync(publish, args, {
        env: { ...process.env, ...env },
        input: '\n',
        encoding: 'utf8',
      });
      assert.equal(ran.status, status, ran.stderr);
      if (says) assert.match(ran.stderr, says);
      else assert.match(ran.stdout, /^CLIENT_ID=/);
    }
    const published = run(publish, [to.api.url], {
      env: { ...process.env, CLIENT_ID, CLIENT_SECRET },
    });
    published.child.stdin?.end(JSON.stringify(to.event(2)));
    assert.match((await published).stdout, /"notification": "queued"/);
  });
});
