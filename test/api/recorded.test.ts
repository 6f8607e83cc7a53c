import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../receiver.js';
import { newCustomer, useShared } from '../service.js';
import { callRaw } from './rawCaller.js';

/** The fields of a recorded request; an account's credentials, of the same length, take the place of its own. */
const recorded = {
  grant_type: 'none',
  client_id: 'cid_RecordedUser',
  client_secret: 'Recorded-Secret_Recorded-Secret_Recorded-Se',
  scope: 'push_notifications reports',
};
const folder = join(import.meta.dirname, 'recorded');
const files = readdirSync(folder).filter((name) => name.endsWith('.http'));

describe('token requests of other ecosystems, answered 200', () => {
  const h = useShared();

  for (const file of files) {
    it(file.replace('.http', ''), async () => {
      // One for each: together they would exceed the rate of one client.
      const account = await newCustomer(h, ['push_notifications', 'reports']);
      const bytes = whole(readFileSync(join(folder, file), 'latin1'))
        .replace(recorded.client_id, account.client_id)
        .replace(recorded.client_secret, account.client_secret);
      let heard = '';
      // A machine that is busy with other work may answer 503: sending it again is always safe.
      for (let tries = 0; tries < 5 && (heard === '' || heard.includes(' 503 ')); tries++) {
        const caller = callRaw(h.url, Buffer.from(bytes, 'latin1'));
        // Its end is that of its JSON: the connection may stay.
        heard = await until('it is answered', () => caller.heard().endsWith('}') && caller.heard());
        caller.socket.destroy();
      }
      assert.match(heard, /^(HTTP\/1\.1 100 Continue\r\n\r\n)?HTTP\/1\.1 200 OK\r\n/);
      assert.match(heard, /"scope":"push_notifications reports"\}$/);
    });
  }
});

/** Adds to the first part of a form, which is all that a file has where its parts are alike, the other three. */
function whole(request: string): string {
  if (request.includes(recorded.client_id)) return request;
  const form = /^(?<head>.+?\r\n\r\n)(?<before>.*?)(?<part>--(?<mark>[^\r]+)\r\n.+)(?<end>--\k<mark>--.*)$/s;
  const { head = '', before = '', part = '', end = '' } = form.exec(request)?.groups ?? {};
  const parts = Object.entries(recorded).map(([name, value]) =>
    part.replace('grant_type', name).replace('none', value),
  );
  const body = before + parts.join('') + end;
  return head.replace(/(?<=^Content-Length: )\d+/m, String(body.length)) + body;
}
