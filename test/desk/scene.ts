/** The operators' door of a service, and customers to try operations on. */
import type { Constants } from '../../src/constants.js';
import { createDesk } from '../../src/desk/desk.js';
import { listen } from '../../src/http/server.js';
import { nameOf, type Operation } from '../../src/operator/operation.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import {
  createOperatorToken,
  personSessions,
  type Role,
  roles,
} from '../../src/redis/records/operatorAccess.js';
import { Visitor } from '../console/visitor.js';
import { type Cli, openCli, registeredClient } from '../operator/cli.js';
import { type Given, type Harness, startHarness } from '../service.js';

export type DeskScene = Awaited<ReturnType<typeof startDesk>>;

export async function startDesk(
  settings: Record<string, string> = {},
  given: Partial<Constants> & Given = {},
) {
  const cli: Cli = await openCli(settings);
  const own = { ...(cli.env as Record<string, string>), ...settings };
  const { log, ...constants } = given;
  const h: Harness = await startHarness({ ...own, ...constants }, 'all', { log });
  const server = await listen({ HOST: '127.0.0.1', PORT: 0 }, createDesk(h.apiDeps));
  const url = `http://127.0.0.1:${server.port}`;
  const made = roles.map(async (role) => [role, await createOperatorToken(h.db, { name: role, role })]);
  const tokens = Object.fromEntries(await Promise.all(made)) as Record<Role, string>;
  return {
    cli,
    h,
    url,
    tokens,
    /** Calls with a token of a role, as a program does. */
    async call(role: Role, method: string, path: string, body?: unknown, headers = {}) {
      const answer = await fetch(url + path, {
        method,
        headers: {
          authorization: `Bearer ${tokens[role]}`,
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        body: body === undefined ? undefined : JSON.stringify(body),
      });
      const text = await answer.text();
      return { status: answer.status, headers: answer.headers, text, body: JSON.parse(text) };
    },
    /** Runs a command on a machine that reaches the operators' door and nothing else. */
    there: (role: Role, args: readonly string[]) =>
      cli.run(args, {
        env: {
          OPERATOR_URL: url,
          OPERATOR_TOKEN: tokens[role],
          REDIS_URL: 'redis://127.0.0.1:1',
          TEMPORAL_ADDRESS: '127.0.0.1:1',
          SECRETS_KEY: undefined,
        },
      }),
    async close() {
      await server.close(true);
      await h.close();
    },
  };
}

/** A link that lets a person in. */
export async function newPersonLink({ h, url }: Pick<DeskScene, 'h' | 'url'>, role: Role, name: string) {
  const { token } = await personSessions.createLink(h.db, { name, role, how: 'link' });
  return `${url}/desk/open#${token}`;
}

/** The browser of a person whom a link has let in. */
export async function personAt(scene: Pick<DeskScene, 'h' | 'url'>, role: Role, name: string = role) {
  const visitor = new Visitor(scene.url);
  await visitor.post('/desk/open', { link: await newPersonLink(scene, role, name) });
  return visitor;
}

let count = 0;

/** An account with a site whose URL holds a secret, and that is owed a video. */
export async function newSite({ cli, h }: Pick<DeskScene, 'cli' | 'h'>, url: string) {
  const n = ++count;
  const account = await createAccount(h.db, { name: `Media ${n}` });
  const client = await registeredClient(cli, account.account_id, `SITE-${n}-${cli.prefix.slice(0, 20)}`, url);
  const { id } = await h.publish({ client, asset: 'vid-1', eventId: 'an-1' });
  return { ...account, client, id };
}

/** `id` is that of its notification. */
export type Site = Awaited<ReturnType<typeof newSite>>;

/** What operations are tried with beside the arguments that name a site: arguments and options of the command, and the same as members. */
const inputs: Record<string, (site: Site) => Record<string, unknown>> = {
  'account create': () => ({ name: 'New Media', scope: ['push_notifications', 'signing_secrets'] }),
  'account rotate-secret': () => ({ now: true }),
  'account show': ({ client }) => ({ account_or_client: client }),
  'account set': () => ({ scope: ['enrichments'] }),
  'client create': ({ account_id, client }) => ({ account: account_id, name: 'Site', token: `${client}-2` }),
  'client list': ({ account_id }) => ({ account: account_id, state: 'paused' }),
  'client set': () => ({ max_in_flight: 3, max_per_second: 'default' }),
  'asset forget': () => ({ platform_id: 'vid-1' }),
  'registration change': () => ({ url: 'http://127.0.0.1:9/new?key=new-secret' }),
  'registration requests': ({ client }) => ({ client }),
  'notification list': ({ client }) => ({ client, limit: 1 }),
  'notification dismiss': () => ({ since: '3d', dry_run: true }),
  'notification recover': () => ({ since: '3d', dry_run: true }),
  'notification replay': () => ({ since: '3d', dry_run: true }),
  explain: () => ({ platform_id: 'vid-1' }),
  audit: ({ client }) => ({ since: '1h', of: client }),
  console: ({ client }) => ({ account_or_client: client, read: true }),
  desk: () => ({ role: 'support' }),
  'token create': ({ client }) => ({ name: client, role: 'look', expires: '1d' }),
  'token revoke': () => ({ name: 'nobody' }),
};

/** Members of an operation's input that name a site, and what it is tried with beside them. */
export function inputOf(operation: Operation, site: Site): Record<string, unknown> {
  const named = { account_id: site.account_id, client_token: site.client, notification_id: site.id };
  const its = Object.entries(named).filter(([member]) => member in operation.input.shape);
  return { ...Object.fromEntries(its), ...inputs[nameOf(operation)]?.(site) };
}

export const pathOf = (operation: Operation): string => `/operator/${nameOf(operation).replaceAll(' ', '/')}`;
