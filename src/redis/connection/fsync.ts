import type { Redis } from 'ioredis';

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
export function watchFsync(redis: Redis): FsyncWatch {
  let always = false;
  const ask = async () => {
    try {
      always = await readFsync(redis);
    } catch (err) {
      // A slow answer says nothing about the setting; a refusal does.
      if (err instanceof Error && /unknown command|NOPERM|not allowed/i.test(err.message)) always = false;
    }
  };
  const lost = () => {
    always = false;
  };
  const asked = ask();
  redis.on('ready', ask);
  redis.on('close', lost);
  const timer = setInterval(ask, askEveryMs);
  timer.unref();
  return {
    always: () => always,
    asked,
    close() {
      clearInterval(timer);
      redis.off('ready', ask);
      redis.off('close', lost);
    },
  };
}

async function readFsync(redis: Redis): Promise<boolean> {
  const flat = (await redis.config('GET', 'append*')) as string[];
  const [, onRewrite] = (await redis.config('GET', 'no-appendfsync-on-rewrite')) as string[];
  const setting = (name: string): string | undefined => flat[flat.indexOf(name) + 1];
  return setting('appendonly') === 'yes' && setting('appendfsync') === 'always' && onRewrite === 'no';
}
