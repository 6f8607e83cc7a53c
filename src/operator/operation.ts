/**
 * Operations of operators, each declared once: the command line, the calls under /operator and the pages of the desk are made
 * from the declarations, and carry them out.
 */
import type { Client as TemporalClient } from '@temporalio/client';
import { z } from 'zod';
import { type Act, type Actor, type Tone, toneOf } from '../acts/act.js';
import type { Subject } from '../acts/subjects.js';
import { ApiError } from '../http/apiError.js';
import type { ErrorCode } from '../http/errors.js';
import { pickerOf } from '../http/picker.js';
import { noticesClient } from '../ids.js';
import { createLogger, messageOf } from '../log.js';
import { readTargetPolicy } from '../outgoing/address.js';
import { checkTarget, originOf } from '../outgoing/target.js';
import { explainRefusals, ignore, isRedisUnavailable, refusalOf } from '../redis/connection/unavailable.js';
import { recordChange } from '../redis/records/audit.js';
import { getEndpoint } from '../redis/records/endpoint.js';
import { secretBoxOf } from '../redis/records/installation.js';
import { isAllowed, type Role } from '../redis/records/operatorAccess.js';
import { type Found, findNamed, subjects } from './subjects.js';
import { type Group, type Part, sentence, shownOf, tableOf } from './terminal.js';

export interface Answer {
  /** JSON. */
  value: unknown;
  shown: readonly Part[];
  next?: string;
  /** Whether what it reports is good; absent: it is. */
  tone?: Tone;
  /** Why the exit status of the command is 1, although there is an answer: the tone is bad. */
  failed?: string;
}

/** Answers with a value, and with how people read it: by default the value's members. */
export const answer = (value: object, ...shown: Part[]): Answer => ({
  value,
  shown: shown.length > 0 ? shown : shownOf(value),
});

/**
 * Answers with a page of a list, of which people read a table, made when it is shown.
 * @param columns of the table; all members if absent
 * @param next where the next page begins; `says`: sentences below the table
 */
export const listed = (
  value: readonly object[],
  { columns, none, next }: { columns?: string; none: string; next?: string },
  ...says: string[]
): Answer => ({
  value,
  get shown() {
    return [tableOf(value, none, columns?.split(' ')), ...says];
  },
  ...(next && { next }),
});

export interface Page {
  limit: number;
  after?: string;
  /** True: of a list that grows at its end, the last entries, the newest first. */
  isNewest?: boolean;
}

export const unlimited: Page = { limit: Number.POSITIVE_INFINITY };

type Place = readonly [by: string | number, id: string];

const byPlace = ([a, id]: Place, [b, other]: Place): number =>
  (typeof a === 'number' ? a - Number(b) : a.localeCompare(String(b))) ||
  (id < other ? -1 : Number(id > other));

/** Cuts a page from a whole list, whatever has left it since the page before. @param placeOf by what it is in order, and an id */
export function cutPage<T>(all: readonly T[], { limit, after }: Page, placeOf: (one: T) => Place) {
  const [, by = '', id = ''] = /^(.*)\/([^/]+)$/s.exec(after ?? '') ?? [];
  if (after !== undefined && id === '') throw notACursor();
  const places = all.map((one) => ({ one, place: placeOf(one) }));
  if (typeof places[0]?.place[0] === 'number' && Number.isNaN(Number(by))) throw notACursor();
  const rest = places.filter(({ place }) => id === '' || byPlace(place, [by, id]) > 0);
  rest.sort((a, b) => byPlace(a.place, b.place));
  const page = rest.slice(0, limit);
  return {
    page: page.map(({ one }) => one),
    next: limit < rest.length ? page.at(-1)?.place.join('/') : undefined,
  };
}

export const notACursor = () => new Refused('cursor is not a next_cursor of this call', 'invalid_request');

/** What an operation works with. Without Temporal `wake` warns: the sweep finds the client within 30 seconds after Temporal is back. */
export interface Operator extends Actor {
  role: Role;
  temporal(): Promise<TemporalClient>;
  /** The operator's name, and how the operator came in. */
  who: string;
  address?: string;
}

export const log = createLogger('silent', 'operator');

type Own = Pick<
  Operator,
  'role' | 'who' | 'token' | 'address' | 'warn' | 'config' | 'db' | 'temporal' | 'sender'
>;

/** @param why the operator's reason, for the audit */
export function createOperator(own: Own, why?: string): Operator {
  const { role, config, db, temporal, who, address, warn } = own;
  const operator: Operator = {
    ...own,
    by: 'operator',
    log,
    name: who,
    maySeeSecrets: async () => role === 'admin',
    async permit({ operator: needed }, client) {
      const least = needed && leastRole(needed, client?.clientToken);
      if (least === undefined || !isAllowed(role, least)) throw roleRefused(least ?? 'none', role, who);
    },
    change: async (write) => await (await db()).durably(write).safe,
    async admit(what, { target, before = null, after = null, cancels }) {
      const entry = { who, what, target, before, after, why, address, cancels };
      await operator.change((changed) => recordChange(changed, entry));
      if (who.startsWith('unnamed ('))
        warn('Recorded without a name: give yours with --as NAME or OPERATOR_NAME.');
    },
    async wake(clientToken) {
      try {
        const { owed, replay } = await getEndpoint(await db(), clientToken);
        if (owed === 0 && !replay?.runs) return true;
        const { createCatchUps } = await import('../temporal/catchUps.js');
        const deps = { temporal: await temporal(), db: await db(), taskQueue: config().TASK_QUEUE, log };
        if ((await createCatchUps(deps).alarm(clientToken)) === 'failed')
          throw new Error('Temporal does not answer, or refuses it.');
        return true;
      } catch (err) {
        warn(
          `Done, but catch-up could not be woken; the sweep wakes it within 30 seconds, once Temporal is back. ${messageOf(err)}`,
        );
        return false;
      }
    },
    async claimNotices(clientToken) {
      const { createNotices } = await import('../notices/notices.js');
      const deps = { db: await db(), catchUps: { alarm: operator.wake }, log, metrics: { ended: ignore } };
      await createNotices(deps)
        .claim(clientToken)
        .catch((err: unknown) =>
          warn(`Done, but its notice waits for the sweep, for 30 seconds at most. ${explainError(err)}`),
        );
    },
    // The sweep reports and counts by the entry in the audit.
    report: ignore,
    countCancelled: ignore,
    countPiece: ignore,
    unlessEnding: (work) => work,
    checkUrl: async (url) => await checkTarget(url, readTargetPolicy(config())),
    shownUrl: (url) => (role === 'look' ? originOf(url) : url),
    secretBox: async () => secretBoxOf(await db(), config().SECRETS_KEY),
  };
  return operator;
}

/** Returns the role that a client's change needs: the notices of the platform are about every customer. */
export const leastRole = (needed: Role, clientToken?: string): Role =>
  needed !== 'look' && clientToken === noticesClient('platform') ? 'admin' : needed;

export const roleRefused = (needed: Role | 'none', role: Role, who: string) =>
  new ApiError('insufficient_role', `This needs the role ${needed}; ${who} has the role ${role}`);

export interface Operation<Input extends z.ZodObject = z.ZodObject> {
  /** The words of the command, then its arguments, which are the first members of the input: `client set <token>`. */
  command: string;
  does: string;
  /** At the desk: the button, by default the words of the command, and the group of its form, by default Delivery. */
  button?: string;
  group?: Group;
  role: Role;
  /** True: it changes or sends something, asks for a reason, and is in the audit; by default if whoever may only look may not. */
  changes: boolean;
  input: Input;
  answers: z.ZodType;
  /** The name of the list that a call answers page by page; `answers` is the schema of one entry. */
  list?: string;
  /** The acts that it carries out; the first gives its role. */
  acts?: readonly Act<never, unknown>[];
  /** What is in force of what it sets, by members, for its form. @param about the members that say of whom */
  inForce?(operator: Operator, about: Readonly<Record<string, string>>): Promise<Record<string, string>>;
  run(operator: Operator, input: z.output<Input>, page: Page): Promise<Answer>;
}

/** `role`: by default that of the first act. */
type Declared<Input extends z.ZodObject> = Omit<Operation<Input>, 'changes' | 'role'> & {
  changes?: boolean;
  role?: Role;
};

export function operation<Input extends z.ZodObject>(of: Declared<Input>): Operation {
  const role = of.role ?? of.acts?.[0]?.may.operator;
  if (role === undefined) throw new Error(`${of.command} has no role`);
  const pick = pickerOf(of.list === undefined ? of.answers : z.array(of.answers));
  const run: Operation<Input>['run'] = async (...given) => {
    const answer = await of.run(...given);
    answer.value = pick(answer.value);
    return answer;
  };
  return { changes: role !== 'look', ...of, role, run } as unknown as Operation;
}

interface Carrying<Input extends z.ZodObject, Given, Asked, Value extends object>
  extends Omit<Declared<Input>, 'role' | 'run' | 'acts' | 'command'> {
  act: Act<Asked, Value>;
  /** By default the act's name, and the client, account or notification that the input names first. */
  command?: string;
  /** Reads the input; absent: the act takes it as it is, with what it names (`findNamed`). */
  asked?(input: z.output<Input>): Given;
  /** What an operator is told instead of what a publisher is, by the code of the act's error. */
  words?: Words;
  /** How people read the act's answer; by default what `answers` names of it. */
  shown?(done: Value, input: z.output<Input>): Part[];
  failed?(done: Value): string;
}

type Words = Partial<Record<ErrorCode, (client: string) => string>>;

/** Declares an operation that carries out an act. */
export function actOperation<Input extends z.ZodObject, Value extends object, Given = z.output<Input>>({
  act,
  command,
  asked,
  shown,
  failed = () => 'What it reports is not good.',
  words = {},
  ...of
}: Carrying<Input, Given, Found<NoInfer<Given>>, Value>): Operation {
  const pick = pickerOf(of.answers);
  const [first = ''] = Object.keys(of.input.shape);
  return operation<Input>({
    ...of,
    command: command ?? [act.title, subjects[first]].join(' ').trim(),
    acts: [act as Act<never, unknown>],
    async run(operator, input) {
      const given = (await findNamed(operator, asked?.(input) ?? input)) as Found<Given>;
      const { client } = given as { client?: Subject };
      const done = await act(operator, given).catch((err: unknown) => {
        throw inOperatorsWords(err, client?.clientToken, words);
      });
      const tone = toneOf(done);
      const failure = tone === 'bad' && { failed: failed(done) };
      return { ...answer(pick(done) as Value, ...(shown?.(done, input) ?? [])), tone, ...failure };
    },
  });
}

const noUrl = (client: string) => `${client} has no URL.`;

/** The catalogue of errors speaks to publishers of their one client. */
function inOperatorsWords(err: unknown, client = '', own: Words): unknown {
  if (!(err instanceof ApiError)) return err;
  const words: Words = { not_registered: noUrl, no_notices_url: noUrl, ...own };
  const says = words[err.code]?.(client);
  if (says === undefined) return err;
  // A 429 names the rate of a call, and no operator has one.
  return new Refused(says, err.status === 429 ? 'refused' : err.code);
}

/** Returns the words of an operation's command without its arguments. */
export const nameOf = ({ command }: Pick<Operation, 'command'>): string => command.replace(/ [<[].*/, '');

/** Returns the arguments of a command by the members of the input that take them, each as it is written: `<token>`. */
export function argumentsOf({ command, input }: Pick<Operation, 'command' | 'input'>): Map<string, string> {
  const members = Object.keys(input.shape);
  const words = command.match(/[<[][^>\]]*[>\]]/g) ?? [];
  return new Map(words.map((word, i) => [members[i] ?? '', word]));
}

/** The operation is understood but not carried out. The message is for the operator. */
export class Refused extends Error {
  override name = 'Refused';
  constructor(
    message: string,
    readonly code: ErrorCode = 'refused',
    /** What to do about it, where a server does not serve. */
    readonly todo?: string,
  ) {
    super(message);
  }
}

/** Returns why an operation was not carried out, for the operator. @param isChange it may have changed something */
export function explainError(err: unknown, isChange = false): string {
  if (err instanceof Refused) return err.message;
  // It may begin with an id.
  if (err instanceof ApiError) return messageOf(err).replace(/\.?$/, '.');
  if (isRedisUnavailable(err)) {
    const [why] = explainRefusals([refusalOf(err)]);
    const may = isChange ? ' The command may or may not have taken effect.' : '';
    return `${why?.says}${may} ${why?.todo}`;
  }
  return sentence(messageOf(err));
}
