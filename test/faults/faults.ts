import { randomInt } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { onStack, type Part, parts, partsTogether, type System } from './system.js';

export interface Fault {
  name: string;
  /** Breaks it and brings it back; resolves with the moment (ms) from which on it could be used again. */
  inject(system: System): Promise<number>;
}

const killsOfStore: readonly Fault[] = onStack
  ? [killOf('PostgreSQL', ['postgresql']), killOf('PostgreSQL and Temporal', ['postgresql', 'temporal'])]
  : [];

/** What is killed at random moments, in the order of the report. */
export const kills: readonly Fault[] = [
  killOf('API', ['api']),
  killOf('worker', ['worker']),
  killOf('Temporal', ['temporal']),
  ...killsOfStore,
  killOf('Redis', ['redis']),
  {
    name: 'receiver broken off',
    async inject({ receiver }) {
      await receiver.breakOff();
      await pause(randomInt(100, 1500));
      await receiver.open();
      return Date.now();
    },
  },
  killOfAll('all at once', parts),
];

/** The same where API and worker are one process. */
export const killsTogether: readonly Fault[] = [
  killOf('API with worker, in one process', ['api']),
  killOf('Temporal, in one process', ['temporal']),
  killOf('Redis, in one process', ['redis']),
  killOfAll('all at once, in one process', partsTogether),
];

function killOfAll(name: string, all: readonly Part[]): Fault {
  return {
    name: `\`kill -9\` of ${name}`,
    async inject(system) {
      await Promise.all([...all.map((part) => system.kill(part)), system.receiver.breakOff()]);
      await Promise.all([...all.map((part) => system.start(part)), system.receiver.open()]);
      return Date.now();
    },
  };
}

function killOf(name: string, killed: readonly Part[]): Fault {
  return {
    name: `\`kill -9\` of ${name}`,
    async inject(system) {
      await Promise.all(killed.map((part) => system.kill(part)));
      await pause(randomInt(0, 300));
      await Promise.all(killed.map((part) => system.start(part)));
      return Date.now();
    },
  };
}

/** `count` faults, each kind as often as the others, in random order; few are of the last kinds, which break most. */
export function drawFaults(kinds: readonly Fault[], count: number): Fault[] {
  const drawn = Array.from({ length: count }, (_, i) => kinds.at(-1 - (i % kinds.length)) as Fault);
  for (let i = drawn.length - 1; i > 0; i--) {
    const j = randomInt(i + 1);
    [drawn[i], drawn[j]] = [drawn[j] as Fault, drawn[i] as Fault];
  }
  return drawn;
}

/** Parts that the service reaches through a proxy. */
type Line = keyof NonNullable<System['proxies']>;
type Proxy = NonNullable<System['proxies']>[Line];
type Away = Line | 'postgresql';
const titles: Record<Away, string> = {
  redis: 'Redis',
  temporal: 'Temporal',
  receiver: 'receiver',
  postgresql: 'PostgreSQL',
};

/** Away for a time: the process is gone, and comes back. */
export function away(part: Away, seconds: number): Fault {
  return {
    name: `${titles[part]} away for ${seconds < 60 ? `${seconds} s` : `${seconds / 60} min`}`,
    async inject(system) {
      await (part === 'receiver' ? system.receiver.breakOff() : system.kill(part));
      await pause(seconds * 1000);
      await (part === 'receiver' ? system.receiver.open() : system.start(part));
      return Date.now();
    },
  };
}

/** The faults of the connection to each of them, for `ms`. */
export function badLines(part: Line, ms: number): Fault[] {
  const kinds: [what: string, begin: (line: Proxy) => void, end: (line: Proxy) => void][] = [
    ['latency 200 ms', (line) => line.slow({ latencyMs: 200 }), (line) => line.slow({})],
    ['20 kB/s', (line) => line.slow({ bytesPerSecond: 20_000 }), (line) => line.slow({})],
    ['hangs', (line) => line.hang(), (line) => line.release()],
    ['half open', (line) => line.forget(), (line) => line.reach()],
    ['resets half an answer', (line) => line.resetAnswers(true), (line) => line.resetAnswers(false)],
  ];
  return kinds.map(([what, begin, end]) => ({
    name: `line to ${titles[part]}: ${what}`,
    async inject({ proxies }) {
      if (!proxies) throw new Error('this system has no proxies');
      begin(proxies[part]);
      await pause(ms);
      end(proxies[part]);
      return Date.now();
    },
  }));
}
