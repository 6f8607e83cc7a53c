/**
 * Returns the files of this tree that a file imports, types too; paths from the project folder.
 * @throws Error where one of them is not there
 */
export function importsOf(file: string): string[];

/** Returns the packages that are loaded as soon as a file of this tree is: not those of its types and its `import()`. */
export function packagesLoadedWith(file: string): string[];
