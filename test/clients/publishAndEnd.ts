/** A publisher that ends as soon as it may: sends so many events, closes the client, and says what was taken. */
import { EnrichmentsClient } from '../../clients/node/src/client.js';

const [url = '', clientId = '', clientSecret = '', client_token = '', count = '0'] = process.argv.slice(2);
const client = new EnrichmentsClient({ url, clientId, clientSecret, batchSize: 20 });
let taken = 0;
for (let n = 0; n < Number(count); n++) {
  client.send({ client_token, platform_id: `video-${n}`, segments: ['iab:17'] }).then(
    () => taken++,
    (err: unknown) => console.error(err),
  );
}
await client.close();
console.log(taken);
