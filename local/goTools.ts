import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { cached } from './cached.js';

/**
 * Builds programs of a Go module at first use, by `go install`, which takes minutes of CPU for large ones.
 *
 * @param name of the folder that keeps them, before the version
 * @param packages all of one module, which is of this version
 * @returns the folder that holds them, each named as Go names it: by the last part of its package
 * @throws where there is no Go, or it fails
 */
export function goTools(name: string, packages: readonly string[], version: string): Promise<string> {
  return cached(`${name}-${version}-${process.platform}-${process.arch}`, async (home) => {
    await promisify(execFile)('go', ['install', ...packages.map((one) => `${one}@${version}`)], {
      env: { ...process.env, GOBIN: home },
      maxBuffer: 16 * 1024 * 1024,
    });
  });
}
