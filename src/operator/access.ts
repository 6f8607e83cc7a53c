/** Who may come in at the operators' door: tokens of programs, and links for people. */
import { z } from 'zod';
import { createToken, endDesk, makeDeskLink, revokeToken } from '../acts/installation.js';
import { presentTime } from '../acts/present.js';
import { text, time, yesOrNo } from '../http/schemas.js';
import { listOperatorTokens, roles, tokenNamePattern } from '../redis/records/operatorAccess.js';
import { choice, flag, personName, spanMs } from './input.js';
import { actOperation, answer, cutPage, listed, operation } from './operation.js';
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

export const tokenCreate = actOperation({
  act: createToken,
  button: 'Create token',
  does: 'make a token with which a program signs in; it is shown only once',
  input: z.object({
    name: tokenName.describe('name of the program, for the audit'),
    role: role.describe('what it may do; each role may do what those before it may'),
    expires: lifetime.optional().describe('for how long it is valid, such as 90d (default: until revoked)'),
  }),
  answers: described
    .pick({ name: true, role: true, expires_at: true })
    .extend({ token: text('crm.Zx0…', 'Shown only once.') }),
  shown: (made) => [...shownOf(made), 'The token is shown only once: store it now.'],
});

export const tokenList = operation({
  command: 'token list',
  does: 'list the tokens of programs by name, with their last use',
  role: 'admin',
  changes: false,
  input: z.object({}),
  answers: described,
  list: 'tokens',
  async run(operator, _, asked) {
    const all = await listOperatorTokens(await operator.db());
    const { page, next } = cutPage(all, asked, ({ name }) => ['', name]);
    const tokens = page.map(({ name, role, createdAtMs, expiresAtMs, lastUsedAtMs }) => {
      const times = { created_at: presentTime(createdAtMs), expires_at: presentTime(expiresAtMs) };
      return { name, role, ...times, last_used_at: presentTime(lastUsedAtMs) };
    });
    return listed(tokens, { none: 'There are no tokens: token create --name NAME --role ROLE', next });
  },
});

export const tokenRevoke = actOperation({
  act: revokeToken,
  command: 'token revoke <name>',
  button: 'Revoke token',
  does: 'end a token immediately',
  input: z.object({ name: tokenName }),
  answers: z.object({ name: tokenName, revoked: yesOrNo(true) }),
  shown: ({ name }) => [`The token ${name} has ended, with the pages of the desk that it has opened.`],
});

export const deskLink = operation({
  command: 'desk',
  button: 'Create sign-in link',
  does: "create a link that opens the operators' pages once, within 15 minutes",
  input: z.object({
    name: personName.optional().describe('whom it lets in, for the audit (default: you)'),
    role: role.default('look').describe('what the person may do'),
    end: flag('end every session and unused link of people instead'),
  }),
  answers: z.object({
    role: z.enum(roles).optional(),
    url: text('http://127.0.0.1:9464/desk/open#dG9rZW4').optional(),
    expires_at: time().optional(),
    ended: yesOrNo(true).optional(),
  }),
  acts: [makeDeskLink, endDesk],
  async run(operator, { name = operator.who.replace(/ \(.*/, ''), role, end }) {
    if (end) return answer(await endDesk(operator, {}), 'Every session and link of people has ended.');
    return answer(await makeDeskLink(operator, { name, role }));
  },
});
