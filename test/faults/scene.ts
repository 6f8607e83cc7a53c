/** A running system, with a publisher whose clients are registered, and the platform; nothing is going on yet. */
import { readConfig } from '../../src/config.js';
import type { Db } from '../../src/redis/connection/db.js';
import { platformScope } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { createSecretBox, type SecretBox } from '../../src/redis/records/secretBox.js';
import { createSigningSecret } from '../../src/redis/records/secrets.js';
import { connectDb } from '../servers.js';
import { callApi, newCustomer, repeated } from '../service.js';
import { createSystem, type Part, parts, partsTogether, type System, type SystemOptions } from './system.js';

export type FaultScene = Awaited<ReturnType<typeof setScene>>;
export type Cast = FaultScene['cast'];

export interface FaultSceneOptions extends SystemOptions {
  parts?: readonly Part[];
  clients?: number;
  /** Of another build of the service, with which the parts begin. */
  folder?: string;
}

export async function setScene(options: FaultSceneOptions = {}) {
  const system = await createSystem(options);
  try {
    const usual = options.together ? partsTogether : parts;
    await Promise.all((options.parts ?? usual).map((part) => system.start(part, options.folder)));
    await system.receiver.open();
    // The harness waits for a busy machine; the parts under test have their own patience.
    const db = await connectDb(system.redisUrl, '', { commandTimeoutMs: 10_000 });
    return {
      system,
      db,
      cast: await createCast(system, db, options.clients ?? 1),
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

async function createCast(system: System, db: Db, clientCount: number) {
  const box: SecretBox = createSecretBox(readConfig({ SECRETS_KEY: system.secretsKey }).SECRETS_KEY);
  const service = { url: system.apiUrl, db };
  const publisher = await newCustomer(service);
  const platform = await newCustomer(service, [platformScope]);
  const clientTokens: string[] = [];
  for (let i = 0; i < clientCount; i++) {
    const { clientToken } = await createClient(db, { accountId: publisher.account_id, name: `Site ${i}` });
    await createSigningSecret(db, box, clientToken);
    await register(system.apiUrl, publisher.token, clientToken, `${system.receiverUrl}/${clientToken}`);
    clientTokens.push(clientToken);
  }
  return {
    publisher,
    publisherToken: publisher.token,
    clientTokens,
    platform,
    platformToken: platform.token,
  };
}

/** Sends events in one call. @returns the status, and what is said of each event */
export async function publishAll({ system, cast }: Pick<FaultScene, 'system' | 'cast'>, events: object[]) {
  const url = `${system.apiUrl}/enrichments`;
  const { status, body } = await callApi(cast.platformToken, 'POST', url, { events });
  const { results = [] } = body as { results?: { notification_id?: string; code?: string }[] };
  return { status, results };
}

export async function register(apiUrl: string, token: string, clientToken: string, url: string) {
  const query = new URLSearchParams({ client_token: clientToken, url });
  const path = `${apiUrl}/register_push_notifications?${query}`;
  const { status, text } = await repeated(() => callApi(token, 'POST', path));
  if (status !== 200) throw new Error(`not registered: ${status} ${text}`);
}
