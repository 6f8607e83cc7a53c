import type { Command } from 'commander';

export interface Word {
  word: string;
  description: string;
}

/** Where a cursor may stand: behind a command, and what can follow there. */
export interface Place {
  /** The names of the commands up to it, a space before each; '' behind the program's name. */
  path: string;
  words: Word[];
  /** Behind an option that takes a value: its choices, none where it may be anything. */
  values: { option: string; choices: readonly string[] }[];
}

/** Every place in a program, out of its own definition. */
export function placesOf(program: Command): Place[] {
  return placesUnder(program, '');
}

function placesUnder(command: Command, path: string): Place[] {
  const help = command.createHelp();
  const options = [...help.visibleOptions(command), ...help.visibleGlobalOptions(command)];
  const place: Place = {
    path,
    words: [
      ...help.visibleCommands(command).map((sub) => word(sub.name(), sub.description())),
      ...command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices.map((one) => word(one, ''))),
      ...options.map((option) => word(option.long ?? option.flags, option.description)),
    ],
    values: options
      .filter((option) => option.required || option.optional)
      .map((option) => ({ option: option.long ?? option.flags, choices: option.argChoices ?? [] })),
  };
  return [place, ...command.commands.flatMap((sub) => placesUnder(sub, `${path} ${sub.name()}`))];
}

const word = (name: string, description: string): Word => ({ word: name, description });

/** As one word of a shell. */
export const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
