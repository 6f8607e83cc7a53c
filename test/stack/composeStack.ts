/**
 * The stack of docker-compose.yml in a Docker engine, as a project of its own beside others. An override adds a receiver in
 * a container, and lets the service send to it. Without an image registry the engine uses the images that it has.
 */
import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '../../local/ports.js';
import { projectDir } from '../../src/operator/npmStart.js';
import { succeeds } from '../receiver.js';
import { newFolder } from '../servers.js';
import { run } from '../tools.js';

const longest = 15 * 60_000;

/** Answers 200 to each POST, keeps the webhook-ids on a volume, and lists them on GET. */
const receiver = `
const fs = require('node:fs');
fs.appendFileSync('/ids/ids', '');
require('node:http').createServer((req, res) => {
  if (req.method === 'POST') fs.appendFileSync('/ids/ids', req.headers['webhook-id'] + ' ');
  res.end(req.method === 'POST' ? '' : fs.readFileSync('/ids/ids'));
}).listen(8080);
process.on('SIGTERM', () => process.exit());
`;

export type Stack = Awaited<ReturnType<typeof prepareStack>>;

/** True if the engine of `docker` answers. */
export const hasEngine = (): Promise<boolean> =>
  succeeds(run('docker', ['compose', 'version']).then(() => run('docker', ['info'])));

/** Prepares a project with random secrets. Nothing runs yet. */
export async function prepareStack() {
  const dir = await newFolder();
  const ports = { api: await freePort(), receiver: await freePort() };
  const settings = {
    POSTGRES_PASSWORD: randomBytes(24).toString('hex'),
    REDIS_PASSWORD: randomBytes(24).toString('hex'),
    SECRETS_KEY: `k1:${randomBytes(32).toString('base64')}`,
    PORT: ports.api,
    ADMIN_PORT: await freePort(),
    TEMPORAL_UI_PORT: await freePort(),
    GRAFANA_PORT: await freePort(),
    ALLOW_HTTP_TARGETS: true,
    ALLOWED_TARGET_CIDRS: '10.0.0.0/8,172.16.0.0/12,192.168.0.0/16',
  };
  /** Writes `.env` with one more setting. */
  async function set(name: string, value: string | number): Promise<void> {
    Object.assign(settings, { [name]: value });
    const lines = Object.entries(settings).map(([key, one]) => `${key}=${one}\n`);
    await writeFile(join(dir, '.env'), lines.join(''));
  }
  await set('PROCESSES', 2);
  const service = {
    image: /^FROM (\S+)/m.exec(await readFile(join(projectDir, 'Dockerfile'), 'utf8'))?.[1],
    command: ['node', '-e', receiver],
    networks: ['outside'],
    ports: [`127.0.0.1:${ports.receiver}:8080`],
    volumes: ['received:/ids'],
  };
  const override = (tag: string) => ({
    services: { receiver: service, all: { image: `asset-update-service:${tag}` } },
    volumes: { received: {} },
  });
  const writeOverride = (tag: string) => writeFile(join(dir, 'override.yml'), JSON.stringify(override(tag)));
  await writeOverride('test');
  const environment = {
    ...process.env,
    USER: process.env.USER ?? 'operator',
    COMPOSE_PROJECT_NAME: `asset-update-test-${process.pid}`,
    COMPOSE_FILE: `${join(projectDir, 'docker-compose.yml')}:${join(dir, 'override.yml')}`,
    COMPOSE_ENV_FILES: join(dir, '.env'),
    COMPOSE_STATUS_STDOUT: '1',
  };
  const ran = new Set<string>();

  /** Runs a command line in the folder of the project's copies. @returns what it printed */
  async function shell(line: string): Promise<string> {
    const { stdout } = await run('sh', ['-c', `exec < /dev/null; ${line}`], {
      cwd: dir,
      env: environment,
      timeout: longest,
      maxBuffer: 64 * 1024 * 1024,
    });
    return stdout;
  }

  return {
    apiUrl: `http://127.0.0.1:${ports.api}`,
    receiverUrl: 'http://receiver:8080/hook',
    shell,
    /** Runs a command exactly as a guide says it, `more` appended. */
    async guide(line: string, more = ''): Promise<string> {
      ran.add(line);
      // There is no terminal here. `...` stands for any command, or for any query.
      const bare = line
        .replace(/ (exec|run --rm) (?!-T)/, ' $1 -T ')
        .replace(/ up(?= |$)(?!.* -d)/, ' up -d')
        .replace('"..."', `"ExecutionStatus = 'Running'"`)
        .replace(/(main\.js|temporal-namespace)( \.\.\.)?$/, '$1 --help');
      return await shell(`${bare}${more}`);
    },
    ran,
    received: async () =>
      new Set((await (await fetch(`http://127.0.0.1:${ports.receiver}/`)).text()).split(' ').filter(Boolean)),
    /** The next `up` runs the service's image under this tag. */
    tag: writeOverride,
    set,
    remove: () => shell('docker compose --profile observe down --volumes --remove-orphans --timeout 5'),
  };
}
