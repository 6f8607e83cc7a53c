import type { Command } from 'commander';
import { bashCompletion } from '../completion/bash.js';
import { placesOf } from '../completion/places.js';
import { zshCompletion } from '../completion/zsh.js';
import type { Operator } from '../operator.js';

export type Shell = keyof typeof scripts;

const scripts = { bash: bashCompletion, zsh: zshCompletion };

export function completion(operator: Operator, shell: Shell, program: Command): void {
  const script = scripts[shell](program.name(), placesOf(program));
  operator.answer({ shell, script }, () => script);
}
