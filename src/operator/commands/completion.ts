import { Argument, type Command } from 'commander';
import { bashCompletion } from '../completion/bash.js';
import { placesOf } from '../completion/places.js';
import { zshCompletion } from '../completion/zsh.js';
import type { Operator } from '../operator.js';

const scripts = { bash: bashCompletion, zsh: zshCompletion };

export function addCompletionCommand(program: Command, operator: Operator): void {
  program
    .command('completion')
    .description('print a script with which a shell completes commands and options')
    .addArgument(new Argument('<shell>', 'which').choices(Object.keys(scripts)))
    .addHelpText('after', '\nbash, zsh: source <(operator completion bash)')
    .action((shell: keyof typeof scripts) => {
      const script = scripts[shell](program.name(), placesOf(program));
      operator.answer({ shell, script }, () => script);
    });
}
