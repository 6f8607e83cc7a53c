import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { cached } from '../local/cached.js';

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
    await promisify(execFile)('go', ['install', ...packages.map((one) => `${one}@${version}`)], {
      env: { ...process.env, GOBIN: home },
      maxBuffer: 16 * 1024 * 1024,
    });
  });
}
