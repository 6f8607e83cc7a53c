/** `npm run stack -- up | status | down | backup | restore`: the production topology on this machine. */
import { Command, Option } from 'commander';
import { messageOf } from '../../src/messageOf.js';
import { backUp } from './backup.js';
import { down } from './down.js';
import { restore } from './restore.js';
import { status } from './status.js';
import { up } from './up.js';

const program = new Command('npm run stack --').description(
  "The production topology on this machine: Temporal's server on PostgreSQL, Redis with a replica, two processes of the service behind a balancer, Prometheus.",
);

program.command('up').description('starts the stack with the data of its last run').action(up);
program
  .command('status')
  .description('prints each process with its port, health and pid; exit status 1 if one is not healthy')
  .option('--json', 'as JSON')
  .action(async (options: { json?: true }) => {
    process.exitCode = (await status(options.json ?? false)) ? 0 : 1;
  });
program.command('down').description('stops the stack in order; its data is kept').action(down);
program
  .command('backup')
  .description('copies both stores while the stack runs')
  .argument(
    '[folder]',
    'a new folder; default: one named after the time, in stack-backups of the data folder',
  )
  .action(backUp);
program
  .command('restore')
  .description(
    'replaces the data of the stack with a backup, and keeps the replaced data aside; the stack must be down',
  )
  .argument('<folder>', 'the folder of a backup')
  .addOption(new Option('--only <store>', 'restores only this store').choices(['redis', 'postgresql']))
  .action(restore);

try {
  await program.parseAsync();
} catch (err) {
  console.error(messageOf(err));
  process.exitCode = 1;
}
