import type { Middleware } from 'koa';
import { createSigningSecret, rotateSigningSecret } from '../store/signingSecrets.js';
import type { ApiDeps } from './deps.js';
import { endpoint } from './endpoint.js';
import { presentOptionalTime } from './presentTime.js';
import { type PublisherState, publisherSteps } from './publisher.js';

/** GET /push_notifications/signing_secret: it belongs to the client, with or without a URL. */
export function signingSecretEndpoint({ db, secretBox }: ApiDeps): Middleware[] {
  return endpoint<PublisherState>(...publisherSteps(db), async (ctx) => {
    ctx.body = { signing_secret: await createSigningSecret(db, secretBox, ctx.state.client.clientToken) };
  });
}

/** POST /push_notifications/signing_secret: a new one; previous ones sign along for 24 h each. */
export function rotateSigningSecretEndpoint({ db, secretBox }: ApiDeps): Middleware[] {
  return endpoint<PublisherState>(...publisherSteps(db), async (ctx) => {
    const rotated = await rotateSigningSecret(db, secretBox, ctx.state.client.clientToken);
    ctx.body = {
      signing_secret: rotated.signingSecret,
      previous_valid_until: presentOptionalTime(rotated.previousValidUntilMs),
    };
  });
}
