/**
 * Returns the files of this tree that a file imports, types too; paths from the project folder.
 * @throws Error where one of them is not there
 */
export function importsOf(file: string): string[];
