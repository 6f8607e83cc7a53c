import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../receiver.js';
import { newCustomer, useShared } from '../service.js';
import { callRaw } from './rawCaller.js';

/** An account's credentials in a recorded request, of the same length. */
const placeholders = {
  clientId: 'cid_RecordedUser',
  clientSecret: 'Recorded-Secret_Recorded-Secret_Recorded-Se',
};
const folder = join(import.meta.dirname, 'recorded');
const files = readdirSync(folder).filter((name) => name.endsWith('.http'));

describe('token requests of other ecosystems, answered 200', () => {
  const h = useShared();

  for (const file of files) {
    it(file.replace('.http', ''), async () => {
      // One for each: together they would exceed the rate of one client.
      const account = await newCustomer(h, ['push_notifications', 'reports']);
      const bytes = readFileSync(join(folder, file), 'latin1')
        .replace(placeholders.clientId, account.client_id)
        .replace(placeholders.clientSecret, account.client_secret);
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

  it('none of them is missing', () => {
    assert.ok(files.length >= 31, `${files.length} files`);
  });
});
