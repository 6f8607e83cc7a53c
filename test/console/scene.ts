/** An account with a site of its own, and a receiver: what the pages of a site show. */
import type { NotificationRecord } from '../../src/redis/notifications/notifications.js';
import { startReceiver } from '../receiver.js';
import { newCustomer, patient, sharedHarness } from '../service.js';
import { signedIn } from './visitor.js';

export type ConsoleScene = Awaited<ReturnType<typeof startScene>>;

export async function startScene(scopes?: string[]) {
  const h = await sharedHarness(patient);
  const customer = await newCustomer(h, scopes);
  const receiver = await startReceiver();
  const { client_token: client, token } = customer;
  return {
    h,
    receiver,
    customer,
    token,
    site: `/console/sites/${client}`,
    visitor: await signedIn(h, token),
    register: () => customer.register(receiver.url),
    /** Publishes an event, and waits until its notification is in a state, after an attempt. */
    async publish(asset: string, state: NotificationRecord['state']): Promise<string> {
      const { id } = await h.publish({ client, asset });
      await h.attempted(client, id);
      await h.reaches(client, id, state);
      return id;
    },
    call: async (method: string, path: string, body?: unknown) =>
      (await customer.call(method, path, body)).body,
  };
}
