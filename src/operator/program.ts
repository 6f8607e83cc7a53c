/** The command line, made from the operations: its groups, its help, wrong usage, and one run. */
import { Command, CommanderError, Help, InvalidArgumentError, type Option } from 'commander';
import type { z } from 'zod';
import { reasonText, toJsonSchema } from '../http/schemas.js';
import { product } from '../product.js';
import { span } from '../web/words.js';
import { personName } from './input.js';
import {
  type Answer,
  argumentsOf,
  explainError,
  nameOf,
  type Operation,
  type Operator,
  Refused,
  unlimited,
} from './operation.js';
import { groups, operations } from './operations.js';
import { carryOutThere, operatorsDoor } from './remote.js';
import { openSession } from './session.js';
import { written } from './terminal.js';

export const exitStatus = { done: 0, refused: 1, wrongUsage: 2 };

/** Runs one command, given the words after `operator`. @returns its exit status */
export async function execute(args: string[]): Promise<number> {
  let session: ReturnType<typeof openSession> | undefined;
  const program = createProgram((options) => {
    session = openSession(options);
    return session.operator;
  });
  try {
    await program.parseAsync(asCommander(program, args), { from: 'user' });
    return exitStatus.done;
  } catch (err) {
    // Commander throws for help too: with exit code 0 if somebody asked for it.
    if (err instanceof CommanderError) return err.exitCode === 0 ? exitStatus.done : exitStatus.wrongUsage;
    process.stderr.write(`${explainError(err)}\n`);
    return exitStatus.refused;
  } finally {
    await session?.close();
  }
}

/**
 * Puts arguments that begin with `-` behind a `--`: a client token may, and the id of a video. Commander would take each for an option.
 * @throws CommanderError for a word that is nearly an option of the command
 */
function asCommander(program: Command, args: readonly string[]): string[] {
  let command = program;
  const kept: string[] = [];
  const found: string[] = [];
  const rest = [...args];
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    const name = word.replace(/=.*/s, '');
    const options = optionsOf(command);
    const known = options.find(({ short, long }) => name === short || name === long);
    const next = command.commands.find((one) => one.name() === word);
    const isNear = ({ long = '' }: Option) => isNearly(name, long);
    const near = command.commands.length === 0 && word.startsWith('-') && options.find(isNear);
    if (word === '--') found.push(...rest.splice(0));
    else if (known !== undefined)
      kept.push(word, ...(known.required && name === word ? rest.splice(0, 1) : []));
    else if (next !== undefined) {
      command = next;
      kept.push(word);
    } else if (near)
      command.error(
        `error: unknown option '${word}'\n(Did you mean ${near.long}? A name that begins with - stands behind --)`,
      );
    else found.push(word);
  }
  // What is too much stays where it is: commander says whether it is an option or an argument.
  return found.length > command.registeredArguments.length ? [...args] : [...kept, '--', ...found];
}

function optionsOf(command: Command): Option[] {
  const help = command.createHelp();
  return [...help.visibleOptions(command), ...help.visibleGlobalOptions(command)];
}

/** Says whether a word becomes an option's name with at most two letters changed, left out or added, and most of them kept. */
function isNearly(word: string, option: string): boolean {
  const [typed = '', name = ''] = [word, option].map((text) => text.replace(/^-+/, '').replaceAll('_', '-'));
  let edits = [...name, ''].map((_, i) => i);
  for (const [i, letter] of [...typed].entries()) {
    const next = [i + 1];
    for (const [j, other] of [...name].entries())
      next.push(Math.min(next[j] ?? 0, edits[j + 1] ?? 0, (edits[j] ?? 0) - (letter === other ? 1 : 0)) + 1);
    edits = next;
  }
  return (edits.at(-1) ?? 0) <= Math.min(2, name.length / 2);
}

const afterHelp = `
Exit status: 0 done, 1 refused (the reason is on stderr), 2 wrong usage.

The servers are those of REDIS_URL and TEMPORAL_ADDRESS; without them, those that
"npm start" runs for this project folder. With OPERATOR_URL and OPERATOR_TOKEN every
command goes over HTTP, to the operators' door of a running service. Every change is
recorded; see "audit".

Under npm, write "--" before the command: npm run -s operator -- status --json
(without it npm takes --json for itself, and the command prints text).`;

function describeOption(this: Help, option: Option): string {
  return Help.prototype.optionDescription.call(this, option) + (option.mandatory ? ' (required)' : '');
}

type Options = { json?: boolean } & Parameters<typeof openSession>[0];

/** @param open called once a command runs: only then are the options known */
export function createProgram(open: (options: Options) => Operator): Command {
  const program = new Command('operator')
    .description('Commands for operators: accounts, clients, registrations, notifications.')
    .version(product.version, '--version', 'print the version of the service')
    .option('--json', 'print exactly one JSON value')
    .option(
      '--as <name>',
      'record what you do under this name (default: OPERATOR_NAME, else your login)',
      readBy(personName),
    )
    .option('--reason <text>', 'why you do it, for the audit', readBy(reasonText))
    .configureHelp({ showGlobalOptions: true, optionDescription: describeOption })
    .showHelpAfterError('See: operator --help')
    .addHelpText('after', afterHelp)
    .exitOverride();
  const parents = new Map(
    Object.entries(groups).map(([name, does]) => {
      const group = program.command(name).description(does);
      return [name, group.showHelpAfterError(`See: operator ${name} --help`)];
    }),
  );
  for (const operation of operations) {
    const [group = '', ...rest] = operation.command.split(' ');
    const parent = parents.get(group);
    const command = (parent ?? program).command(parent ? rest.join(' ') : operation.command);
    command.showHelpAfterError(`See: operator ${nameOf(operation)} --help`);
    addInput(command.description(operation.does), operation).action(async (...given) => {
      const { typed, input } = readInput(command, operation, given);
      const options = program.opts<Options>();
      const door = operatorsDoor();
      if (door !== undefined && options.as !== undefined && operation.changes)
        process.stderr.write('--as does not hold over HTTP: the audit has the name of the token.\n');
      const work =
        door === undefined
          ? operation.run(open(options), input, unlimited).catch(refuse(operation.changes))
          : carryOutThere(door, operation, typed, options.reason);
      print(await watched(work));
    });
  }
  function print({ value, shown, failed }: Answer): void {
    const { isTTY, columns } = process.stdout;
    const text = program.opts<Options>().json
      ? JSON.stringify(value, null, 2)
      : written(shown, (isTTY && columns) || undefined);
    if (text !== '') process.stdout.write(`${text}\n`);
    if (failed !== undefined) throw new Refused(failed);
  }
  return program;
}

/** Says on a terminal how long a command has been working. */
async function watched<T>(work: Promise<T>): Promise<T> {
  const { stderr } = process;
  if (!stderr.isTTY) return work;
  const sinceMs = Date.now();
  const timer = setInterval(() => stderr.write(`\rWorking: ${span(Date.now() - sinceMs)}`), 1000);
  return work.finally(() => {
    clearInterval(timer);
    stderr.write('\r\x1b[K');
  });
}

const refuse = (isChange: boolean) => (err: unknown) => {
  throw new Refused(explainError(err, isChange));
};

/** @throws InvalidArgumentError, which commander shows with the option */
const readBy = (schema: z.ZodType<string>) => (given: string) => {
  const { data, error } = schema.safeParse(given);
  if (error) throw new InvalidArgumentError(error.issues[0]?.message ?? '');
  return data;
};

const longOption = (member: string): string => `--${member.replaceAll('_', '-')}`;

/** Adds an option for each member of the input that no argument gives. Values stay texts: the schema reads them. */
function addInput(command: Command, operation: Operation): Command {
  const args = argumentsOf(operation);
  for (const [member, schema] of Object.entries(operation.input.shape as Record<string, z.ZodType>)) {
    if (args.has(member)) continue;
    const { type, enum: words } = toJsonSchema(schema);
    const absent = schema.safeParse(undefined);
    const takes = type === 'boolean' ? '' : type === 'string' || type === 'array' ? ` <${member}>` : ' <n>';
    const option = command.createOption(longOption(member) + takes, schema.description);
    option.makeOptionMandatory(!absent.success);
    if (takes !== '') option.default(absent.data);
    // The help names them; the schema refuses others.
    if (words) option.argChoices = words as string[];
    option.argParser((text, earlier = '') => {
      if (type === 'array') return `${earlier} ${text}`.trim();
      const isGiven = command.getOptionValueSource(option.attributeName()) === 'cli';
      if (isGiven) throw new InvalidArgumentError('Give it once.');
      return text;
    });
    command.addOption(option);
  }
  return command;
}

/** Reads what commander passes: the arguments, the options, the command. Wrong input ends the command with its exit status for that. */
function readInput(command: Command, operation: Operation, given: readonly unknown[]) {
  const args = argumentsOf(operation);
  const options = command.opts<Record<string, unknown>>();
  const input = Object.fromEntries(
    Object.keys(operation.input.shape).map((member, i) => [
      member,
      i < args.size ? given[i] : options[member.replaceAll(/_(\w)/g, (_, letter) => letter.toUpperCase())],
    ]),
  );
  const parsed = operation.input.safeParse(input);
  if (parsed.success) return { typed: input, input: parsed.data };
  const [issue] = parsed.error.issues;
  const [member = ''] = (issue?.path ?? []) as string[];
  // What was typed stands first: `--state x: ...`.
  const where = member === '' ? '' : `${args.has(member) ? '' : `${longOption(member)} `}${input[member]}: `;
  return command.error(`error: ${where}${issue?.message}`);
}
