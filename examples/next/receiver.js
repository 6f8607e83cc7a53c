// app/notifications/route.js of a Next.js app: npm install standardwebhooks; SIGNING_SECRETS="whsec_..." in its environment
import { after } from 'next/server';
import { Webhook } from 'standardwebhooks';

// Several, separated by spaces, while you change from one secret to the next. With an empty key anybody could sign.
const isKey = (secret) => Buffer.from(secret.replace('whsec_', ''), 'base64').length >= 24;
const seen = new Set(); // in production: a table with webhook-id as its primary key, written before the answer

export async function POST(request) {
  // The signature covers the bytes as they were sent, which `request.json()` no longer has.
  const body = Buffer.from(await request.arrayBuffer());
  const notification = verified(body, Object.fromEntries(request.headers));
  if (notification === undefined) return new Response(null, { status: 401 });
  const id = request.headers.get('webhook-id');
  const isNew = !seen.has(id);
  seen.add(id);
  if (isNew && notification.event === 'asset-update') after(() => work(notification.platform_id));
  return new Response(null, { status: 204 });
}

/** The notification; undefined when no secret made one of its signatures, or its time is over 5 minutes away. */
function verified(body, headers) {
  const secrets = (process.env.SIGNING_SECRETS ?? '').split(/\s+/).filter(isKey);
  if (secrets.length === 0) throw new Error('SIGNING_SECRETS has no signing secret (whsec_...)');
  for (const secret of secrets) {
    try {
      return new Webhook(secret).verify(body, headers);
    } catch {}
  }
}

function work(platformId) {
  console.log(`updated: ${platformId}`); // ask the platform for the segments of this video
}
