import type { Command } from 'commander';
import type { InSession } from '../inSession.js';

const actions = () => import('../actions/exportImport.js');

export function addExportCommands(program: Command, inSession: InSession): void {
  program
    .command('export')
    .description(
      'print accounts, clients, registrations, notices URLs and secrets (as they are stored) as JSON lines',
    )
    .action(inSession(actions, ({ exportRecords }) => exportRecords));

  program
    .command('import')
    .description('import the output of export, from a file or from standard input')
    .argument('[file]', 'JSON lines; "-" is standard input', '-')
    .addHelpText(
      'after',
      '\nNothing is written unless everything can be written. Records that exist in the same form are left alone;\n' +
        'records that exist in another form are refused. Signing secrets need the SECRETS_KEY they were stored with.',
    )
    .action(inSession(actions, ({ importRecords }) => importRecords));
}
