import { setPaused } from '../../src/redis/records/endpoint.js';
import { startReceiver } from '../receiver.js';
import { forTest } from '../servers.js';
import { type Customer, newCustomer, patient, useShared } from '../service.js';

/** Declares, for a suite, a service with a receiver and a customer for each test, and what the customer's engineers do. */
export function publisherScene() {
  const h = useShared(patient);
  const receiver = forTest(() => startReceiver());
  const customer = forTest(() => newCustomer(h));
  const call: Customer['call'] = (...asked) => customer.call(...asked);
  const publish = async (asset: string, eventId?: string, segments?: string[]) =>
    (await h.publish({ client: customer.client_token, asset, eventId, segments })).id;
  return {
    h,
    receiver,
    customer,
    call,
    read: (path: string) => customer.read(path),
    register: () => customer.register(receiver.url),
    publish,
    /** Publishes an event of a new asset. @returns the id of its notification, once it is delivered */
    async delivered(asset: string, eventId?: string): Promise<string> {
      const id = await publish(asset, eventId);
      await h.reaches(customer.client_token, id, 'delivered');
      return id;
    },
    pause: (isPaused: boolean) => setPaused(h.db, customer.client_token, isPaused),
  };
}
