/** `npm run stack -- up | status | down | backup | restore`: the production topology on this machine. */
import { Command, Option } from 'commander';
import { backUp } from './backup.js';
import { down } from './down.js';
import { restore } from './restore.js';
import { status } from './status.js';
import { up } from './up.js';

const program = new Command('npm run stack --').description(
  "The production topology on this machine: Temporal's server on PostgreSQL, Redis with a replica, two processes of the service behind a balancer, Prometheus.",
);

program.command('up').description('brings it up, and goes on with what it kept').action(up);
program
  .command('status')
  .description('each process with its port, health and pid; exit status 1 where one is not well')
  .option('--json', 'as JSON')
  .action(async (options: { json?: true }) => {
    process.exitCode = (await status(options.json ?? false)) ? 0 : 1;
  });
program.command('down').description('ends it in order; what it holds is kept').action(down);
program
  .command('backup')
  .description('copies both stores while it runs')
  .argument('[folder]', 'a new one; without it one named after the time, in stack-backups of the data folder')
  .action(backUp);
program
  .command('restore')
  .description(
    'puts a backup in the place of what the stack holds, which is set aside; the stack must be down',
  )
  .argument('<folder>', 'of a backup')
  .addOption(new Option('--only <store>', 'one of both stores').choices(['redis', 'postgresql']))
  .action(restore);

try {
  await program.parseAsync();
} catch (err) {
  console.error(err instanceof Error ? err.message : String(err));
  process.exitCode = 1;
}
