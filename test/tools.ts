/** Programs and packages that tests run. What is built or installed is kept under `.cache/`. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cp, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { cached } from '../local/cached.js';
import { pip } from '../local/wheel.js';

/** Runs a program to its end. @throws Error with its output where it fails */
export const run = promisify(execFile);

/** For a JVM that ends soon: its second compiler and its threads that collect garbage would cost more than they gain. */
export const briefJava = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC'];

/** Makes a virtual environment in a folder, with the packages of a file. */
export async function makeVenv(home: string, requirements: string): Promise<void> {
  // A pip of its own would take longer to install than the packages.
  await run('python3', ['-m', 'venv', '--without-pip', home]);
  await pip('python3', ['--python', `${home}/bin/python3`, 'install'], requirements);
}

/** Returns a folder with copies of these files and with what `install` adds, made once for each content. */
export async function installed(
  name: string,
  files: readonly string[],
  install: (home: string) => Promise<unknown>,
): Promise<string> {
  const hash = createHash('sha256');
  for (const file of files) hash.update(await readFile(file));
  const key = `${process.platform}-${process.arch}-${hash.digest('hex').slice(0, 8)}`;
  return await cached(`${name}-${key}`, async (home) => {
    for (const file of files) await cp(file, join(home, basename(file)));
    await install(home);
  });
}

/**
 * Builds programs of a Go module at first use with `go install`, which takes minutes of CPU for large ones.
 *
 * @param name names the folder that keeps them, before the version
 * @param packages all of one module, which has this version
 * @returns the folder that holds them, each under Go's name for it: the last part of its package
 * @throws if Go is missing, or fails
 */
export function goTools(name: string, packages: readonly string[], version: string): Promise<string> {
  return cached(`${name}-${version}-${process.platform}-${process.arch}`, async (home) => {
    await run('go', ['install', ...packages.map((one) => `${one}@${version}`)], {
      env: { ...process.env, GOBIN: home },
      maxBuffer: 16 * 1024 * 1024,
    });
  });
}
