/** The account that the first `npm start` creates for trying the service out. */
import { execFile } from 'node:child_process';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { projectDir } from '../src/operator/npmStart.js';

const run = promisify(execFile);

export interface Credentials {
  client_id: string;
  client_secret: string;
}

interface DemoAccount {
  publisher: Credentials;
  platform: Credentials;
  clientToken: string;
}

/** Returns the accounts of an earlier start if the service still accepts them, else new ones; kept in `.data/demo.json`. */
export async function demoAccount(
  dir: string,
  apiUrl: string,
  environment: Record<string, string>,
  say: (line: string) => void,
): Promise<DemoAccount> {
  const file = join(dir, 'demo.json');
  const earlier = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as DemoAccount) : undefined;
  if (earlier && (await isTaken(apiUrl, earlier))) return earlier;
  const demo = await createDemo(environment);
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, `${JSON.stringify(demo, null, 2)}\n`, { mode: 0o600, flush: true });
  renameSync(draft, file);
  if (earlier)
    say(`the service no longer accepts ${file}: it has a new account, with the client ${demo.clientToken}`);
  return demo;
}

/** Returns a link to the demo account's console; undefined if none could be made. */
export async function consoleLink(
  environment: Record<string, string>,
  { clientToken }: DemoAccount,
): Promise<string | undefined> {
  const link = await runOperator(environment, ['console', clientToken]).catch(() => undefined);
  return link && String(link.url);
}

/** Returns a link to the operators' desk; undefined if none could be made. */
export const deskLink = async (environment: Record<string, string>): Promise<string | undefined> =>
  runOperator(environment, ['desk', '--name', 'npm start', '--role', 'admin'])
    .then(({ url }) => String(url))
    .catch(() => undefined);

export const nextSteps = [
  'A notification in one command, with its own receiver:  npm run -s demo',
  'Step by step, with yours:  docs/tutorial.md',
].join('\n');

async function isTaken(apiUrl: string, { publisher, platform, clientToken }: DemoAccount): Promise<boolean> {
  const ask = async (who: Credentials, scope: string): Promise<string> => {
    const body = new URLSearchParams({ grant_type: 'none', scope, ...who });
    return (await fetch(`${apiUrl}/oauth/access_token`, { method: 'POST', body })).text();
  };
  const answers = await Promise.all([ask(publisher, 'push_notifications'), ask(platform, 'enrichments')]);
  if (answers.some((one) => one.includes('invalid_client'))) return false;
  const headers = { authorization: `Bearer ${JSON.parse(answers[0] ?? '').access_token}` };
  const found = await fetch(`${apiUrl}/push_notifications?client_token=${clientToken}`, { headers });
  return !(await found.text()).includes('unknown_client');
}

async function createDemo(environment: Record<string, string>): Promise<DemoAccount> {
  const operator = (...args: string[]) => runOperator(environment, args);
  const [publisher, platform] = await Promise.all([
    operator('account', 'create', '--name', 'Demo publisher'),
    operator('account', 'create', '--name', 'Demo platform', '--scope', 'enrichments'),
  ]);
  const client = ['client', 'create', '--account', String(publisher.account_id), '--name', 'Demo site'];
  // A start that was killed between the two may have created the client, whose token is never given out twice.
  const { client_token } = await operator(...client, '--token', 'DEMO').catch(() => operator(...client));
  return {
    publisher: credentials(publisher),
    platform: credentials(platform),
    clientToken: String(client_token),
  };
}

/** Runs a command of operators. @returns its JSON value */
export async function runOperator(
  environment: Record<string, string>,
  args: readonly string[],
): Promise<Record<string, unknown>> {
  const main = join(projectDir, 'dist/src/operator/main.js');
  const { stdout } = await run(process.execPath, [main, ...args, '--json'], {
    env: { ...process.env, ...environment },
  });
  return JSON.parse(stdout);
}

function credentials(account: Record<string, unknown>): Credentials {
  return { client_id: String(account.client_id), client_secret: String(account.client_secret) };
}
