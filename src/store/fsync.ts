import type { Db } from './db.js';

export interface FsyncWatch {
  /** Whether Redis is known to have on its disk what it has answered (`appendonly yes`, `appendfsync always`). */
  always(): boolean;
  close(): void;
}

/** An operator may change it at any time. */
const askEveryMs = 30_000;

/** Asks at each connection and from time to time; where Redis does not say (CONFIG may be forbidden), it is not known. */
export function watchFsync(db: Db): FsyncWatch {
  let always = false;
  const ask = async () => {
    always = await readFsync(db).catch(() => false);
  };
  const lost = () => {
    always = false;
  };
  void ask();
  db.redis.on('ready', ask);
  db.redis.on('close', lost);
  const timer = setInterval(ask, askEveryMs);
  timer.unref();
  return {
    always: () => always,
    close() {
      clearInterval(timer);
      db.redis.off('ready', ask);
      db.redis.off('close', lost);
    },
  };
}

async function readFsync(db: Db): Promise<boolean> {
  const [appendOnly, appendFsync] = (await Promise.all([
    db.redis.config('GET', 'appendonly'),
    db.redis.config('GET', 'appendfsync'),
  ])) as string[][];
  return appendOnly?.[1] === 'yes' && appendFsync?.[1] === 'always';
}
