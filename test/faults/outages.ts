import type { Fault } from './faults.js';
import { pause } from './pause.js';
import type { System } from './system.js';

/** Parts that the service reaches through a proxy. */
type Line = keyof NonNullable<System['proxies']>;
type Away = Line | 'postgresql';
const titles: Record<Away, string> = {
  ...{ redis: 'Redis', temporal: 'Temporal', receiver: 'receiver' },
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
  const lineOf = (system: System) => {
    if (!system.proxies) throw new Error('this system has no proxies');
    return system.proxies[part];
  };
  const bad = (name: string, on: (line: Proxy) => void, off: (line: Proxy) => void): Fault => ({
    name: `line to ${titles[part]}: ${name}`,
    async inject(system) {
      const line = lineOf(system);
      on(line);
      await pause(ms);
      off(line);
      return Date.now();
    },
  });
  return [
    bad(
      'latency 200 ms',
      (line) => line.slow({ latencyMs: 200 }),
      (line) => line.slow({}),
    ),
    bad(
      '20 kB/s',
      (line) => line.slow({ bytesPerSecond: 20_000 }),
      (line) => line.slow({}),
    ),
    bad(
      'hangs',
      (line) => line.hang(),
      (line) => line.release(),
    ),
    bad(
      'half open',
      (line) => line.forget(),
      (line) => line.reach(),
    ),
    bad(
      'resets in the middle of an answer',
      (line) => line.resetAnswers(true),
      (line) => line.resetAnswers(false),
    ),
  ];
}

type Proxy = NonNullable<System['proxies']>[Line];
