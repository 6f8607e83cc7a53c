import type { Argument, Command, Option } from 'commander';
import { createProgram } from '../../src/operator/program.js';

/** The rows of the table in docs/reference/commands.md: usage, what it does, its options. */
export function commandRows(): string[][] {
  const program = createProgram(() => {
    throw new Error('no command runs here');
  });
  return rowsOfGroup(program, []);
}

/** @returns the table as Markdown, with its head */
export function commandTable(): string {
  const lines = commandRows().map(
    (cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`,
  );
  return ['| command | does | options |', '| --- | --- | --- |', ...lines].join('\n');
}

function rowsOfGroup(group: Command, before: readonly string[]): string[][] {
  return group.commands.flatMap((command) => {
    const name = [...before, command.name()];
    if (command.commands.length > 0) return rowsOfGroup(command, name);
    const usage = [...name, ...command.registeredArguments.map(written)].join(' ');
    return [[`\`${usage}\``, command.description(), command.options.map(explained).join('<br>')]];
  });
}

function written(argument: Argument): string {
  const choices = argument.argChoices?.join('|') ?? argument.name();
  return argument.required ? `<${choices}>` : `[${choices}]`;
}

function explained({ flags, description, defaultValue, mandatory }: Option): string {
  const usual = defaultValue === undefined ? '' : ` (default: ${defaultValue})`;
  const asked = mandatory ? ' (required)' : '';
  return `\`${flags}\`: ${description}${usual}${asked}`;
}
