/** Who may come in at the operators' door: tokens of programs, and links for people. */
import { z } from 'zod';
import { presentTime } from '../acts/present.js';
import { hostInUrl } from '../addresses.js';
import { text, time, yesOrNo } from '../http/schemas.js';
import {
  createOperatorToken,
  endPersonSessions,
  listOperatorTokens,
  personSessions,
  revokeOperatorToken,
  roles,
  tokenNamePattern,
} from '../redis/records/operatorAccess.js';
import { choice, flag, personName, spanMs } from './input.js';
import { answer, cutPage, listed, operation, Refused } from './operation.js';
import { shownOf } from './terminal.js';

const tokenName = text('crm').regex(tokenNamePattern, 'The name of a token is 1 to 64 of A-Z a-z 0-9 _ -.');
const role = choice(roles);
const longestMs = 3650 * 86_400_000;
const lifetime = text('90d').transform((given, { addIssue }) => {
  const ms = spanMs(given);
  if (ms !== undefined && ms > 0 && ms <= longestMs) return ms;
  addIssue('Give for how long it is valid, at most 3650d: 12h, 90d.');
  return z.NEVER;
});

const described = z.object({
  name: tokenName,
  role: z.enum(roles),
  created_at: time(),
  expires_at: time().nullable(),
  last_used_at: time('To a minute.').nullable(),
});

export const tokenCreate = operation({
  command: 'token create',
  does: 'make a token with which a program comes in; it is shown only once',
  role: 'admin',
  input: z.object({
    name: tokenName.describe('name of the program, for the audit'),
    role: role.describe('what it may do; each role may do what those before it may'),
    expires: lifetime.optional().describe('for how long it is valid, such as 90d (default: until revoked)'),
  }),
  answers: described
    .pick({ name: true, role: true, expires_at: true })
    .extend({ token: text('crm.Zx0…', 'Shown only once.') }),
  async run(operator, { name, role, expires: forMs }) {
    const expires_at = presentTime(forMs && Date.now() + forMs);
    const record = () => operator.record('token create', name, null, { role, expires_at });
    const token = await operator.change((db) => createOperatorToken(db, { name, role, forMs }, record));
    if (token === undefined)
      throw new Refused(`There is a token ${name}: revoke it first, or choose another name.`);
    const made = { name, role, token, expires_at };
    return answer(made, ...shownOf(made), 'The token is shown only once: store it now.');
  },
});

export const tokenList = operation({
  command: 'token list',
  does: 'list the tokens of programs, with their last use',
  role: 'admin',
  changes: false,
  input: z.object({}),
  answers: described,
  list: 'tokens',
  async run(operator, _, asked) {
    const all = await listOperatorTokens(await operator.db());
    const { page, next } = cutPage(all, asked, ({ name }) => name);
    const tokens = page.map(({ name, role, createdAtMs, expiresAtMs, lastUsedAtMs }) => {
      const times = { created_at: presentTime(createdAtMs), expires_at: presentTime(expiresAtMs) };
      return { name, role, ...times, last_used_at: presentTime(lastUsedAtMs) };
    });
    return listed(tokens, { none: 'There are no tokens: token create --name NAME --role ROLE', next });
  },
});

export const tokenRevoke = operation({
  command: 'token revoke <name>',
  does: 'end a token immediately',
  role: 'admin',
  input: z.object({ name: tokenName }),
  answers: z.object({ name: tokenName, revoked: yesOrNo(true) }),
  async run(operator, { name }) {
    const all = await listOperatorTokens(await operator.db());
    if (!all.some((token) => token.name === name)) throw new Refused(`There is no token ${name}.`);
    await operator.record('token revoke', name, null, { revoked: true });
    await operator.change((db) => revokeOperatorToken(db, name));
    return answer({ name, revoked: true }, `The token ${name} has ended.`);
  },
});

export const deskLink = operation({
  command: 'desk',
  does: "create a link that opens the operators' pages once, within 15 minutes",
  role: 'admin',
  input: z.object({
    name: personName.optional().describe('whom it lets in, for the audit (default: you)'),
    role: role.default('admin').describe('what the person may do'),
    end: flag('end every session and unused link of people instead'),
  }),
  answers: z.object({
    role: z.enum(roles).optional(),
    url: text('http://127.0.0.1:9464/desk/open#dG9rZW4').optional(),
    expires_at: time().optional(),
    ended: yesOrNo(true).optional(),
  }),
  async run(operator, { name = operator.who.replace(/ \(.*/, ''), role, end }) {
    if (end) {
      await operator.record('desk end', 'desk', null, null);
      await operator.change(endPersonSessions);
      return answer({ ended: true }, 'Every session and link of people has ended.');
    }
    await operator.record('desk', name, null, { role });
    const person = { name, role, how: 'link' as const };
    const { address, expiresAtMs } = await personSessions.createLink(await operator.db(), person);
    const { OPERATOR_URL, ADMIN_HOST, ADMIN_PORT } = operator.config();
    const { origin } = new URL(OPERATOR_URL ?? `http://${hostInUrl(ADMIN_HOST)}:${ADMIN_PORT}`);
    return answer({ role, url: origin + address, expires_at: presentTime(expiresAtMs) });
  },
});
