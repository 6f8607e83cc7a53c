import type { Db } from './db.js';

export interface FsyncWatch {
  /** Whether Redis is known to have every answered write on its disk, also while it rewrites its log. */
  always(): boolean;
  /** Resolves after the first question to Redis. */
  asked: Promise<void>;
  close(): void;
}

/** How often it asks again: an operator may change the setting at any time. */
const askEveryMs = 30_000;

/** Asks at each connection and from time to time. If Redis does not say (CONFIG may be forbidden), it is unknown. */
export function watchFsync(db: Db): FsyncWatch {
  let always = false;
  const ask = async () => {
    try {
      always = await readFsync(db);
    } catch (err) {
      // A slow answer says nothing about the setting; a refusal does.
      if (err instanceof Error && /unknown command|NOPERM|not allowed/i.test(err.message)) always = false;
    }
  };
  const lost = () => {
    always = false;
  };
  const asked = ask();
  db.redis.on('ready', ask);
  db.redis.on('close', lost);
  const timer = setInterval(ask, askEveryMs);
  timer.unref();
  return {
    always: () => always,
    asked,
    close() {
      clearInterval(timer);
      db.redis.off('ready', ask);
      db.redis.off('close', lost);
    },
  };
}

async function readFsync(db: Db): Promise<boolean> {
  const flat = (await db.redis.config('GET', 'append*')) as string[];
  const [, onRewrite] = (await db.redis.config('GET', 'no-appendfsync-on-rewrite')) as string[];
  const setting = (name: string): string | undefined => flat[flat.indexOf(name) + 1];
  return setting('appendonly') === 'yes' && setting('appendfsync') === 'always' && onRewrite === 'no';
}
