import { readFileSync, statSync } from 'node:fs';
import { isIP } from 'node:net';
import type { ResolvedAddress } from './resolve.js';

/**
 * Reads the system's list of names (hosts(5)), again when the file has changed. It reads synchronously, not on one of libuv's
 * threads: the file is small and in the page cache.
 */
export class HostsFile {
  #version = '';
  #names = new Map<string, ResolvedAddress[]>();

  constructor(readonly path = systemPath) {}

  /**
   * Returns the addresses of a name.
   * @param name in lower case, without a final dot
   * @returns in the order of the file, IPv4 first; empty if it is not listed
   * @throws errors of the file system, unless there is no such file or it may not be read
   */
  addressesOf(name: string): readonly ResolvedAddress[] {
    try {
      const { mtimeMs, size, ino } = statSync(this.path);
      const version = `${mtimeMs} ${size} ${ino}`;
      if (version !== this.#version) {
        this.#names = parse(readFileSync(this.path, 'utf8'));
        this.#version = version;
      }
    } catch (error) {
      if (!absentCodes.has((error as NodeJS.ErrnoException).code ?? '')) throw error;
      this.#names.clear();
      this.#version = '';
    }
    return this.#names.get(name) ?? [];
  }
}

const systemPath = process.platform === 'win32' ? 'C:\\Windows\\System32\\drivers\\etc\\hosts' : '/etc/hosts';
const absentCodes = new Set(['ENOENT', 'EACCES']);

function parse(text: string): Map<string, ResolvedAddress[]> {
  const names = new Map<string, ResolvedAddress[]>();
  for (const line of text.split('\n')) {
    const [address = '', ...listed] = line.replace(/#.*/, '').trim().split(/\s+/);
    const family = isIP(address);
    if (family === 0) continue;
    for (const name of listed) {
      const addresses = names.get(name.toLowerCase()) ?? [];
      addresses.push({ address, family: family === 6 ? 6 : 4 });
      addresses.sort((a, b) => a.family - b.family);
      names.set(name.toLowerCase(), addresses);
    }
  }
  return names;
}
