/** A service that delivers, an account with a site, and a receiver: what the pages of a site show. */
import { type Receiver, startReceiver, until } from '../receiver.js';
import { type Harness, newCustomer, newToken, type RunningApi, startApi, startHarness } from '../service.js';
import { signedIn, type Visitor } from './visitor.js';

export interface Scene {
  harness: Harness;
  api: RunningApi;
  receiver: Receiver;
  customer: Awaited<ReturnType<typeof newCustomer>>;
  token: string;
  /** `/console/sites/<client token>` */
  site: string;
  visitor: Visitor;
  /** Registers the receiver for the customer's client. */
  register(): Promise<void>;
  /** Publishes an event, and waits until its notification is in a state. */
  publish(asset: string, state: string): Promise<string>;
  /** Calls the API with the customer's token, for its client. */
  call(method: string, path: string, body?: unknown): Promise<Record<string, unknown>>;
  close(): Promise<void>;
}

export async function startScene(scopes?: string[]): Promise<Scene> {
  const [harness, receiver] = await Promise.all([
    startHarness({
      failingAfter: 3,
      probeScheduleMs: [300_000],
      RETRY_SCHEDULE_SECONDS: '600',
    }),
    startReceiver(),
  ]);
  await harness.startWorker();
  const api = await startApi({ prefix: harness.db.prefix, env: { TASK_QUEUE: harness.taskQueue } });
  const customer = await newCustomer(api, scopes);
  const token = await newToken(api, customer);
  const client = customer.client_token;
  return {
    harness,
    api,
    receiver,
    customer,
    token,
    site: `/console/sites/${client}`,
    visitor: await signedIn(api, token),
    register: () => harness.registerUrl(client, receiver.url),
    async publish(asset, state) {
      const { id } = await harness.publish({ client, asset });
      await until(`${asset} is ${state}`, async () => {
        const record = await harness.notification(client, id);
        return record?.state === state && (state !== 'waiting' || record.attempts.length > 0);
      });
      return id;
    },
    async call(method, path, body) {
      const answer = await fetch(`${api.url}${path}?client_token=${client}`, {
        method,
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      return (await answer.json()) as Record<string, unknown>;
    },
    async close() {
      await api.close();
      await harness.close();
      await receiver.close();
    },
  };
}
