/** What the pages of a site say of the publisher's request for another URL. */
import { originOf } from '../../outgoing/target.js';
import { secretBoxOf } from '../../redis/records/installation.js';
import { unlessUnreadable } from '../../redis/records/secretBox.js';
import { readUrlRequest, type UrlRequest } from '../../redis/records/urlRequests.js';
import { html, type Piece } from '../../web/html.js';
import type { SitePart } from '../../web/site.js';
import { exactly } from '../../web/words.js';

/** Says what became of the last request; nothing if there is none. */
export const lastRequest: SitePart = async ({ client, access, reader }, { db, config }) => {
  const read = async () => readUrlRequest(db, await secretBoxOf(db, config.SECRETS_KEY), client.clientToken);
  const asked = await read().catch(unlessUnreadable);
  if (asked === undefined) return '';
  const url = access === 'full' ? asked.url : originOf(asked.url);
  const became: Record<UrlRequest['state'], Piece> = {
    waiting: html`waits for ${reader.contact} until ${exactly(asked.until)}; another request takes its place`,
    accepted: `was accepted by ${reader.contact}`,
    declined: `was declined by ${reader.contact}`,
    void: 'is void: nobody answered it in time, or the URL changed otherwise',
  };
  return html`Your request for <code>${url}</code> of ${exactly(asked.at)} ${became[asked.state]}.`;
};
