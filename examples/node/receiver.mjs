// npm install; SIGNING_SECRETS="whsec_..." PORT=4000 node receiver.mjs
import express from 'express';
import { Webhook } from 'standardwebhooks';

// Several, separated by spaces, while you change from one secret to the next. With an empty key anybody could sign.
const isKey = (secret) => Buffer.from(secret.replace('whsec_', ''), 'base64').length >= 24;
const secrets = (process.env.SIGNING_SECRETS ?? '').split(/\s+/).filter(isKey);
if (secrets.length === 0) {
  console.error('SIGNING_SECRETS has no signing secret (whsec_...)');
  process.exit(1);
}
const webhooks = secrets.map((secret) => new Webhook(secret));
const seen = new Set(); // in production: a table with webhook-id as its primary key, written before the answer
const app = express();

// `raw`: the signature covers the bytes as they were sent, which a parsed body no longer has.
app.post('/notifications', express.raw({ type: '*/*', limit: '16kb' }), (request, response) => {
  const notification = verified(request.body, request.headers);
  if (notification === undefined) return response.sendStatus(401);
  const id = request.get('webhook-id');
  const isNew = !seen.has(id);
  seen.add(id);
  response.sendStatus(204);
  if (isNew && notification.event === 'asset-update') setImmediate(work, notification.platform_id);
});

app.listen(Number(process.env.PORT), '127.0.0.1');

/** The notification; undefined when no secret made one of its signatures, or its time is over 5 minutes away. */
function verified(body, headers) {
  for (const webhook of webhooks) {
    try {
      return webhook.verify(body, headers);
    } catch {}
  }
}

function work(platformId) {
  console.log(`updated: ${platformId}`); // ask the platform for the segments of this video
}
