/** The command line: its groups, its help, wrong usage, and one run. */
import { Command, CommanderError, Help, type Option } from 'commander';
import { addAccountCommands, addConsoleCommand } from './account.js';
import { addAuditCommand } from './audit.js';
import { addClientCommands } from './client.js';
import { addDemoCommand } from './demo.js';
import { addDoctorCommand } from './doctor.js';
import { addExplainCommand } from './explain.js';
import { addNotificationCommands } from './notification.js';
import { addRegistrationCommands } from './registration.js';
import { addSecretsCommands } from './secrets.js';
import { type AddCommand, explainError, type Operator, openSession } from './session.js';
import { addStatusCommand } from './status.js';
import { parseAnyClient, parseClientToken, parseNotificationId } from './terminal.js';

export const exitStatus = { done: 0, refused: 1, wrongUsage: 2 };

/** Runs one command, given the words after `operator`. @returns its exit status */
export async function execute(args: string[]): Promise<number> {
  let operator: Operator | undefined;
  const program = createProgram((options) => {
    operator = openSession(options);
    return operator;
  });
  try {
    await program.parseAsync(args, { from: 'user' });
    return exitStatus.done;
  } catch (err) {
    // Commander throws for help too: with exit code 0 if somebody asked for it.
    if (err instanceof CommanderError) return err.exitCode === 0 ? exitStatus.done : exitStatus.wrongUsage;
    process.stderr.write(`${explainError(err)}\n`);
    return exitStatus.refused;
  } finally {
    await operator?.close();
  }
}

const afterHelp = `
Exit status: 0 done, 1 refused (the reason is on stderr), 2 wrong usage.

The servers are those of REDIS_URL and TEMPORAL_ADDRESS; without them, those that
"npm start" runs for this project folder. Every change is recorded; see "audit".

Under npm, write "--" before the command: npm run -s operator -- status --json
(without it npm takes --json for itself, and the command prints text).`;

/** The parsers of arguments, by the names that commands give the arguments. */
const parsers: Record<string, (text: string) => string> = {
  token: parseAnyClient,
  'client-token': parseClientToken,
  'notification-id': parseNotificationId,
};

function describeOption(this: Help, option: Option): string {
  return Help.prototype.optionDescription.call(this, option) + (option.mandatory ? ' (required)' : '');
}

/** Says first what was typed: `option '--state <state>' argument 'x' is invalid. ...` becomes `--state x: ...`. */
const inOurWords = (text: string): string =>
  text.replace(
    /^error: (?:option '(-\S+).*?' argument|command-argument value) '(.*)' is invalid(?: for argument '.*?')?\. /,
    (_, option, given) => `error: ${option === undefined ? '' : `${option} `}${given}: `,
  );

/** @param open called once a command runs: only then are the options known */
export function createProgram(open: (options: { json?: boolean; as?: string }) => Operator): Command {
  const program = new Command('operator')
    .description('Commands for operators: accounts, clients, registrations, notifications.')
    .option('--json', 'print exactly one JSON value')
    .option('--as <name>', 'record what you do under this name (default: OPERATOR_NAME, else your login)')
    .configureHelp({ showGlobalOptions: true, optionDescription: describeOption })
    .showHelpAfterError('See: operator <command> --help')
    .configureOutput({ outputError: (text, write) => write(inOurWords(text)) })
    .addHelpText('after', afterHelp)
    .exitOverride();
  const addTo =
    (parent: Command): AddCommand =>
    (name, description, carryOut) => {
      const command = parent.command(name).description(description);
      for (const argument of command.registeredArguments) {
        const parse = parsers[argument.name()];
        if (parse !== undefined) argument.argParser(parse);
      }
      // Untyped, as commander passes them.
      return command.action((...given) => carryOut(open(program.opts()), ...(given as never)));
    };
  const add = addTo(program);
  const group = (name: string, description: string) => addTo(program.command(name).description(description));
  addAccountCommands(group('account', 'manage accounts of media companies and of the platform'));
  addClientCommands(group('client', 'manage clients: sites, apps and channels of an account'));
  addRegistrationCommands(group('registration', 'show and change the URL and state of clients'));
  addNotificationCommands(group('notification', 'list, send again, recover or cancel notifications'));
  addExplainCommand(add);
  addStatusCommand(add);
  addDoctorCommand(add);
  addAuditCommand(add);
  addConsoleCommand(add);
  addSecretsCommands(group('secrets', 'encrypt or rotate signing secrets'));
  addDemoCommand(add);
  return program;
}
