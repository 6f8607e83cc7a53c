/** The programs of test/clients/corpus: real clients of each language, run as `<program> <client>...`. */
import { join } from 'node:path';
import { briefJava, installed, makeVenv, run } from '../tools.js';

const folder = join(import.meta.dirname, 'corpus');

export interface Language {
  name: string;
  /** Succeeds where it can run; the same as in test/skips.json. */
  runtime: [command: string, ...args: string[]];
  /** Fetches its packages at first use. @returns the program and its first arguments */
  prepare(): Promise<[command: string, ...args: string[]]>;
  /** HTTP clients: each gets a token, publishes, sends a body that is too long, and one to a call that takes none. */
  http: string[];
  /** OAuth clients: each gets a token. */
  oauth?: string[];
}

export const languages: Language[] = [
  {
    name: 'shell',
    runtime: ['curl', '--version'],
    prepare: async () => ['sh', join(folder, 'callers.sh')],
    http: ['curl'],
  },
  {
    name: 'Node',
    runtime: ['node', '--version'],
    prepare: async () => [process.execPath, join(folder, 'callers.mjs')],
    // What others are built upon: axios, got, node-fetch and superagent upon node:http, oauth4webapi is what openid-client calls.
    http: ['fetch', 'node:http'],
    oauth: inBothWays('openid-client'),
  },
  {
    name: 'Python',
    runtime: ['python3', '-c', 'import sys; sys.exit(sys.version_info < (3, 11))'],
    async prepare() {
      const requirements = join(folder, 'requirements.txt');
      const home = await installed('clients-python', [requirements], (cwd) => makeVenv(cwd, requirements));
      return [join(home, 'bin/python3'), join(folder, 'callers.py')];
    },
    http: ['urllib', 'Requests', 'httpx'],
    oauth: inBothWays('requests-oauthlib'),
  },
  {
    name: 'Go',
    runtime: ['go', 'version'],
    async prepare() {
      const home = await made('go', ['go/go.mod', 'go/go.sum', 'go/callers.go'], (cwd) =>
        run('go', ['build', '-mod=readonly', '-o', 'callers', '.'], { cwd }),
      );
      return [join(home, 'callers')];
    },
    http: ['net/http', 'net/http, Expect'],
    oauth: ['x/oauth2', 'x/oauth2, Basic', 'x/oauth2, fields'],
  },
  {
    name: 'Java',
    runtime: ['javac', '--version'],
    async prepare() {
      const home = await made('java', ['Callers.java'], (cwd) =>
        run('javac', ['-encoding', 'UTF-8', 'Callers.java'], { cwd }),
      );
      return ['java', ...briefJava, '-cp', home, 'Callers'];
    },
    // Without expectContinue(true): before Java 17.0.17 java.net.http then waits for ever for a 100 that a refusal has no
    // need of (JDK-8286171).
    http: ['java.net.http', 'HttpURLConnection'],
  },
  {
    name: 'PHP',
    runtime: ['php', '-r', "exit(extension_loaded('curl') ? 0 : 1);"],
    prepare: async () => ['php', join(folder, 'callers.php')],
    http: ['curl', 'streams'],
  },
  {
    name: 'Ruby',
    runtime: ['ruby', '--version'],
    prepare: async () => ['ruby', join(folder, 'callers.rb')],
    http: ['Net::HTTP'],
  },
];

function inBothWays(...clients: string[]): string[] {
  return clients.flatMap((one) => [`${one}, Basic`, `${one}, fields`]);
}

const made = (name: string, files: string[], install: (home: string) => Promise<unknown>): Promise<string> =>
  installed(
    `clients-${name}-${process.version}`,
    files.map((file) => join(folder, file)),
    install,
  );
