import { randomInt } from 'node:crypto';

/** How much is broken: the short form of CI, or with FAULT_FORM=long the long one; each number can be set by itself. */
const long = process.env.FAULT_FORM === 'long';

const kills = Number(process.env.FAULT_KILLS || (long ? 200 : 20));

export const form = {
  name: long ? 'long' : 'short',
  /** Faults at random moments under load. */
  kills,
  /** The same where API and worker are one process. */
  killsTogether: Math.ceil(kills / 2),
  /** For how long Redis, Temporal and the receiver are away, one after the other. */
  outagesSeconds: (process.env.FAULT_OUTAGE_SECONDS || (long ? '1,30,900' : '1')).split(',').map(Number),
  /** Mixed load with nothing broken. */
  soakMinutes: Number(process.env.FAULT_SOAK_MINUTES || (long ? 60 : 1)),
  checkerMinutes: Number(process.env.FAULT_CHECKER_MINUTES || (long ? 60 : 1)),
  /** Of the first round; the next rounds have the numbers after it. */
  checkerSeed: Number(process.env.FAULT_CHECKER_SEED || randomInt(1_000_000)),
  /** What reach.test.ts has failed, published and read. */
  reach: long
    ? {
        failedAssets: 12_000,
        newerAssets: 20_000,
        feedSeconds: 60,
        readerPauseMs: 10_000,
        quietSeconds: 60,
        lateMs: 1000,
      }
    : {
        failedAssets: 1_200,
        newerAssets: 500,
        feedSeconds: 3,
        readerPauseMs: 500,
        quietSeconds: 40,
        lateMs: 5000,
      },
};
