/** Clients, their bounds, signing secrets and deletion. */
import { z } from 'zod';
import {
  createClient,
  deleteClient,
  listClients,
  presentClient,
  quietSecondsAtMost,
  setBounds,
} from '../acts/clients.js';
import { reencrypt } from '../acts/installation.js';
import { rotate } from '../acts/secrets.js';
import { integer, text, time, yesOrNo } from '../http/schemas.js';
import { isNoticesClient } from '../ids.js';
import { siteFilters, siteStates } from '../redis/records/endpoint.js';
import {
  accountId,
  anyClient,
  choice,
  clientToken,
  filledText,
  flag,
  ifAbsent,
  nameText,
  newName,
  wholeNumber,
} from './input.js';
import { actOperation, answer, listed, notACursor, operation } from './operation.js';
import { requireAccount, requireClient } from './subjects.js';
import { type Part, shownOf } from './terminal.js';

const described = z.object({
  client_token: clientToken,
  account_id: accountId,
  name: nameText,
  max_in_flight: integer(4).nullable(),
  max_per_second: integer(20).nullable(),
  quiet_seconds: integer(0),
});

export const clientCreate = actOperation({
  act: createClient,
  button: 'Create site',
  group: 'Sites',
  does: 'create a client',
  input: z.object({
    account: accountId.describe('account that owns the client'),
    name: newName.describe('name of the client'),
    token: clientToken.optional().describe('client token (default: random)'),
    if_absent: ifAbsent,
  }),
  answers: described.pick({ client_token: true, account_id: true, name: true }),
});

export const clientList = operation({
  command: 'client list',
  does: 'list clients by token, with state and URL: all, or those of one account, name or state',
  input: z.object({
    account: accountId.optional().describe('only of this account'),
    name: filledText
      .optional()
      .describe('only with this text in the name, the client token or the host of the URL'),
    state: choice(siteFilters).optional().describe('only in this state; failed: with failed notifications'),
  }),
  answers: described.extend({
    state: z.enum([...siteStates, 'unreadable']),
    owed: integer(12, 'null where keys are broken').nullable(),
    failed: integer(0).nullable(),
    url: text('https://cms.example.com/hooks').nullable(),
  }),
  list: 'clients',
  acts: [listClients],
  async run(operator, { account: accountId, name, state }, page) {
    if (accountId !== undefined) await requireAccount(operator, accountId);
    const { limit, after = '' } = page;
    if (after !== '' && !anyClient.safeParse(after).success) throw notACursor();
    const { clients, next } = await listClients(operator, { accountId, name, state, after, limit });
    const isFiltered = [accountId, name, state].some((given) => given !== undefined);
    const none = isFiltered ? 'No client matches.' : 'There are no clients.';
    const rows = clients.map((client) => ({ ...client, url: client.url ?? null }));
    return listed(rows, { columns: 'client_token name account_id state owed failed url', none, next });
  },
});

function shownClient(client: z.output<typeof described>, byDefault?: number): Part[] {
  const { max_in_flight, max_per_second, ...rest } = client;
  const places = max_in_flight ?? (byDefault ? `${byDefault} (the default)` : 'the default');
  const rate = max_per_second ?? 'no limit (the default)';
  return shownOf({ ...rest, max_in_flight: places, max_per_second: rate });
}

export const clientShow = operation({
  command: 'client show <token>',
  does: 'show a client and its bounds; registration show has its URL and state',
  role: 'look',
  input: z.object({ client_token: anyClient }),
  answers: described,
  async run(operator, { client_token }) {
    const client = presentClient(await requireClient(operator, client_token));
    return answer(client, ...shownClient(client, operator.config().MAX_IN_FLIGHT));
  },
});

/** With `default` the service's own bound applies again. */
const boundSays = 'Give a whole number of at least 1, or "default".';
const bound = z.union([z.literal('default').transform(() => null), wholeNumber(boundSays)], boundSays);

const quiet = wholeNumber(`Give a whole number of seconds from 0 to ${quietSecondsAtMost}.`, {
  from: 0,
  to: quietSecondsAtMost,
});

export const clientSet = actOperation({
  act: setBounds,
  button: 'Change bounds',
  group: 'Bounds',
  does: "change a client's bounds",
  input: z
    .object({
      client_token: anyClient,
      max_in_flight: bound.optional().describe('attempts in flight, or "default"'),
      max_per_second: bound.optional().describe('attempts a second, or "default" (no limit)'),
      quiet_seconds: quiet.optional().describe(`the quiet period of its assets, 0 to ${quietSecondsAtMost}`),
    })
    .refine(
      ({ client_token: _, ...bounds }) => Object.values(bounds).some((given) => given !== undefined),
      'Give --max-in-flight, --max-per-second or --quiet-seconds.',
    ),
  async inForce(operator, { client_token = '' }) {
    const { maxInFlight, maxPerSecond, quietSeconds } = await requireClient(operator, client_token);
    return {
      max_in_flight: String(maxInFlight ?? 'default'),
      max_per_second: String(maxPerSecond ?? 'default'),
      quiet_seconds: String(quietSeconds ?? 0),
    };
  },
  answers: described,
  shown: (client) => shownClient(client),
});

export const clientDelete = actOperation({
  act: deleteClient,
  command: 'client delete <client-token>',
  button: 'Delete site',
  group: 'Delete',
  does: 'delete a client for good, and cancel its owed notifications',
  input: z.object({ client_token: clientToken }),
  answers: z.object({
    client_token: clientToken,
    deleted: yesOrNo(true),
    removed_url: text('https://cms.example.com/hooks').optional(),
    cancelled: integer(2),
  }),
  shown: ({ client_token, cancelled }) => [
    `${client_token} is deleted. Owed notifications cancelled: ${cancelled}.`,
  ],
});

export const secretsReencrypt = actOperation({
  act: reencrypt,
  button: 'Encrypt again',
  does: 'encrypt all signing secrets and request headers with the first key of SECRETS_KEY',
  input: z.object({
    lost: filledText
      .optional()
      .describe('id of a key that is lost: the secrets that it encrypts are given up'),
  }),
  answers: z.object({ key_id: text('k2'), reencrypted: integer(12), unchanged: integer(0) }),
  shown: ({ key_id, reencrypted, unchanged }) => [
    `${reencrypted} signing secrets and request headers are now encrypted with the key "${key_id}"; ` +
      `${unchanged} were already.`,
  ],
});

export const secretsRotate = actOperation({
  act: rotate,
  button: 'Rotate signing secret',
  group: 'Access',
  does: "replace a client's signing secret; the old one also signs for 24 h",
  input: z.object({
    client_token: anyClient,
    now: flag('the old one and every earlier one end immediately'),
  }),
  answers: z.object({ client_token: anyClient, previous_valid_until: time().nullable() }),
  words: {
    too_many_requests: (client) =>
      `Ten earlier signing secrets of ${client} still sign, for 24 h each. With --now all of them end immediately.`,
  },
  shown({ client_token: client, previous_valid_until: until }, { now }) {
    const call = isNoticesClient(client) ? '/notices/signing_secret' : '/push_notifications/signing_secret';
    const earlier = until === null ? 'There was no earlier one.' : 'The old one also signs for 24 h.';
    const old = now ? 'Every earlier one has ended.' : earlier;
    return [`${client} has a new signing secret; its account reads it with GET ${call}. ${old}`];
  },
});
