/** The command line: its groups, its help, and wrong usage. */
import { Command } from 'commander';
import { addAccountCommands } from './commands/account.js';
import { addAuditCommand } from './commands/auditTrail.js';
import { addClientCommands } from './commands/client.js';
import { addCompletionCommand } from './commands/completion.js';
import { addConsoleCommand } from './commands/console.js';
import { addDemoCommand } from './commands/demo.js';
import { addDoctorCommand } from './commands/doctor.js';
import { addExplainCommand } from './commands/explain.js';
import { addNoticesCommands } from './commands/notices.js';
import { addNotificationCommands } from './commands/notification.js';
import { addRegistrationCommands } from './commands/registration.js';
import { addSecretsCommands } from './commands/secrets.js';
import { addStatusCommand } from './commands/status.js';
import { addWatchCommand } from './commands/watch.js';
import { createInSession } from './inSession.js';
import type { Operator } from './operator.js';
import { styled } from './terminal/colour.js';

export interface GlobalOptions {
  json?: boolean;
  as?: string;
}

const afterHelp = `
Exit status: 0 done, 1 refused (the reason is on stderr), 2 wrong usage.

The servers are those of REDIS_URL and TEMPORAL_ADDRESS; without them, those that
"npm start" runs for this project folder. Every change is recorded; see "audit".`;

/** @param open called once a command runs: only then are `program.opts()` known */
export function createProgram(open: () => Promise<Operator>): Command {
  const program = new Command('operator')
    .description('Commands for operators: accounts, clients, registrations, notifications.')
    .option('--json', 'print exactly one JSON value')
    .option('--as <name>', 'record what you do under this name (default: OPERATOR_NAME, else your login)')
    .configureHelp({
      showGlobalOptions: true,
      styleTitle: (text) => styled('bold', text),
      styleCommandText: (text) => styled('cyan', text),
      styleSubcommandText: (text) => styled('cyan', text),
      styleOptionText: (text) => styled('cyan', text),
    })
    .showHelpAfterError()
    .addHelpText('after', afterHelp)
    .exitOverride();
  const inSession = createInSession(open);
  addAccountCommands(program, inSession);
  addClientCommands(program, inSession);
  addRegistrationCommands(program, inSession);
  addNotificationCommands(program, inSession);
  addNoticesCommands(program, inSession);
  addExplainCommand(program, inSession);
  addStatusCommand(program, inSession);
  addWatchCommand(program, inSession);
  addDoctorCommand(program, inSession);
  addAuditCommand(program, inSession);
  addConsoleCommand(program, inSession);
  addSecretsCommands(program, inSession);
  addDemoCommand(program, inSession);
  addCompletionCommand(program, inSession);
  return program;
}
