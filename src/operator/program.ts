/** The command line: its groups, its help, and wrong usage. */
import { Command } from 'commander';
import { parseAnyClient, parseClientToken, parseNotificationId } from './arguments.js';
import { addAccountCommands } from './commands/account.js';
import { addAuditCommand } from './commands/audit.js';
import { addClientCommands } from './commands/client.js';
import { addConsoleCommand } from './commands/console.js';
import { addDemoCommand } from './commands/demo.js';
import { addDoctorCommand } from './commands/doctor.js';
import { addExplainCommand } from './commands/explain.js';
import { addNoticesCommands } from './commands/notices.js';
import { addNotificationCommands } from './commands/notification.js';
import { addRegistrationCommands } from './commands/registration.js';
import { addSecretsCommands } from './commands/secrets.js';
import { addStatusCommand } from './commands/status.js';
import type { AddCommand, Operator } from './operator.js';

const afterHelp = `
Exit status: 0 done, 1 refused (the reason is on stderr), 2 wrong usage.

The servers are those of REDIS_URL and TEMPORAL_ADDRESS; without them, those that
"npm start" runs for this project folder. Every change is recorded; see "audit".`;

/** The readers of arguments, by the names that commands give them. */
const parsers: Record<string, (text: string) => string> = {
  token: parseAnyClient,
  'client-token': parseClientToken,
  'notification-id': parseNotificationId,
};

/** @param open called once a command runs: only then are `program.opts()` known */
export function createProgram(open: () => Operator): Command {
  const program = new Command('operator')
    .description('Commands for operators: accounts, clients, registrations, notifications.')
    .option('--json', 'print exactly one JSON value')
    .option('--as <name>', 'record what you do under this name (default: OPERATOR_NAME, else your login)')
    .configureHelp({ showGlobalOptions: true })
    .showHelpAfterError()
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
      return command.action(async (...given) => {
        const operator = open();
        // Before anything is done under this name.
        operator.checkName();
        // Untyped, as commander passes them.
        await carryOut(operator, ...(given as never));
      });
    };
  const group = (name: string, description: string) => addTo(program.command(name).description(description));
  addAccountCommands(group('account', 'manage accounts of media companies and of the platform'));
  addClientCommands(group('client', 'manage clients: sites, apps and channels of an account'));
  addRegistrationCommands(group('registration', 'show and change the URL and state of clients'));
  addNotificationCommands(group('notification', 'list, send again, recover or cancel notifications'));
  addNoticesCommands(group('notices', 'the URLs for notices about endpoints and secrets'));
  const add = addTo(program);
  addExplainCommand(add);
  addStatusCommand(add);
  addDoctorCommand(add);
  addAuditCommand(add);
  addConsoleCommand(add);
  addSecretsCommands(group('secrets', 'encrypt or rotate signing secrets'));
  addDemoCommand(add);
  return program;
}
