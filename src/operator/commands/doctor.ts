import type { Command } from 'commander';
import type { InSession } from '../inSession.js';

const actions = () => import('../actions/doctor.js');

export function addDoctorCommand(program: Command, inSession: InSession): void {
  program
    .command('doctor')
    .description('check settings, clocks, Redis and Temporal; exit status 1 if a check fails')
    .action(inSession(actions, ({ doctor }) => doctor));
}
