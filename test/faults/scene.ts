/** A running system with its cast, and nothing going on yet. */
import { readConfig } from '../../src/config.js';
import { createLogger } from '../../src/log.js';
import { type Db, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { type Cast, createCast } from './cast.js';
import { createSystem, type Part, parts, partsTogether, type System, type SystemOptions } from './system.js';

export interface Scene {
  system: System;
  db: Db;
  cast: Cast;
  stop(): Promise<void>;
}

export interface SceneOptions extends SystemOptions {
  parts?: readonly Part[];
  clients?: number;
}

export async function setScene(options: SceneOptions = {}): Promise<Scene> {
  const system = await createSystem(options);
  try {
    const usual = options.together ? partsTogether : parts;
    await Promise.all((options.parts ?? usual).map((part) => system.start(part)));
    await system.receiver.open();
    const db = openDb({ url: system.redisUrl, prefix: '', log: createLogger('silent', 'faults') });
    await waitForRedis(db, 10_000);
    const box = createSecretBox(readConfig({ SECRETS_KEY: system.secretsKey }).SECRETS_KEY);
    const cast = await createCast(db, box, system.apiUrl, system.receiverUrl, options.clients ?? 1);
    return {
      system,
      db,
      cast,
      async stop() {
        db.redis.disconnect();
        await system.stop();
      },
    };
  } catch (err) {
    await system.stop();
    throw err;
  }
}
