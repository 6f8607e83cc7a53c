import type { Command } from 'commander';

export interface Word {
  word: string;
  description: string;
}

/** A position of the cursor after a command, and the words that can follow there. */
export interface Place {
  /** The names of the commands up to it, with a space before each; '' after the program's name. */
  path: string;
  words: Word[];
  /** After an option with a value: its choices, none if any value is allowed. */
  values: { option: string; choices: readonly string[] }[];
}

/** Returns every position in a program, from the program's definition. */
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

/** Quotes a text as one word of a shell. */
export const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
