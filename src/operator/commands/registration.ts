import { Argument, type Command, Option } from 'commander';
import { endpointStates } from '../../redis/records/endpointStates.js';
import type { InSession } from '../inSession.js';
import { parseAnyClient } from './clientToken.js';

const actions = () => import('../actions/registration.js');

export function addRegistrationCommands(program: Command, inSession: InSession): void {
  const registration = program
    .command('registration')
    .description('show and change the URL and state of clients');
  const client = () => new Argument('<token>', 'the client').argParser(parseAnyClient);

  registration
    .command('show')
    .description("show a client's URL, its state and its owed notifications")
    .addArgument(client())
    .action(inSession(actions, ({ registrationShow }) => registrationShow));

  registration
    .command('list')
    .description('list every registration, or those in one state')
    .addOption(new Option('--state <state>', 'only in this state').choices(endpointStates))
    .action(inSession(actions, ({ registrationList }) => registrationList));

  registration
    .command('reset')
    .description('remove the URL; owed assets stay owed for 30 days and go to the next URL')
    .addArgument(client())
    .action(inSession(actions, ({ registrationReset }) => registrationReset));

  registration
    .command('change')
    .description('replace the URL immediately, without a gap')
    .addArgument(client())
    .requiredOption('--url <url>', 'the new URL')
    .action(inSession(actions, ({ registrationChange }) => registrationChange));

  registration
    .command('pause')
    .description('pause all deliveries; owed assets stay owed')
    .addArgument(client())
    .action(inSession(actions, ({ registrationPause }) => registrationPause));

  registration
    .command('resume')
    .description('end a pause, and probe a suspended or failing endpoint now; then drain')
    .addArgument(client())
    .action(inSession(actions, ({ registrationResume }) => registrationResume));
}
