import { Argument, type Command } from 'commander';
import type { Shell } from '../actions/completion.js';
import type { InSession } from '../inSession.js';

const actions = () => import('../actions/completion.js');
const shells: readonly Shell[] = ['bash', 'zsh'];

export function addCompletionCommand(program: Command, inSession: InSession): void {
  program
    .command('completion')
    .description('print a script with which a shell completes commands and options')
    .addArgument(new Argument('<shell>', 'which').choices(shells))
    .addHelpText('after', '\nbash, zsh: source <(operator completion bash)')
    .action(
      inSession(
        actions,
        ({ completion }) =>
          (operator, shell: Shell) =>
            completion(operator, shell, program),
      ),
    );
}
