import assert from 'node:assert/strict';
import { readConfig } from '../src/config.js';

describe('the settings', () => {
  for (const name of ['TRUSTED_PROXIES', 'ALLOWED_TARGET_CIDRS']) {
    it(`${name}: a range that is none is refused at the start, by name and without its value`, () => {
      for (const wrong of ['192.0.2.0/99', '999.0.0.0/8', '192.0.2.0', '::1/129', ':::/8', 'proxy/8']) {
        assert.throws(
          () => readConfig({ [name]: `127.0.0.0/8,${wrong}` }),
          (err: Error) => err.message.includes(name) && !err.message.includes(wrong),
        );
      }
      assert.deepEqual(readConfig({ [name]: '10.0.0.0/8, ::1/128' })[name as 'TRUSTED_PROXIES'], [
        '10.0.0.0/8',
        '::1/128',
      ]);
    });
  }
});
