import assert from 'node:assert/strict';
import fc from 'fast-check';
import { when } from '../src/operator/input.js';
import { readTime } from '../src/times.js';

describe('times that callers and operators write', () => {
  const { TZ } = process.env;
  afterEach(() => {
    if (TZ === undefined) delete process.env.TZ;
    else process.env.TZ = TZ;
  });

  it('are RFC 3339, or a day in UTC, and read the same in every zone of the process', () => {
    const read = ['2026-01-31', '2026-01-31t00:00:00z', '2026-01-31T00:00:00Z', '2026-01-31T01:00:00+01:00'];
    const more = ['2026-01-30T19:00:00.000000001-05:00', '2026-01-31T00:00:00-00:00'];
    for (const zone of ['UTC', 'America/New_York', 'Asia/Kathmandu']) {
      process.env.TZ = zone;
      for (const text of [...read, ...more]) {
        assert.equal(readTime(text), Date.UTC(2026, 0, 31), `${text} in ${zone}`);
        assert.equal(when.parse(text), Date.UTC(2026, 0, 31));
      }
    }
    assert.equal(readTime('2016-12-31T18:59:60-05:00'), Date.UTC(2017, 0, 1));
    fc.assert(
      fc.property(fc.date({ noInvalidDate: true, min: new Date(0), max: new Date(4e12) }), (date) => {
        assert.equal(readTime(date.toISOString()), date.getTime());
      }),
    );
  });

  const days = ['2026-02-31', '2026-02-29T00:00:00Z', '2026-13-01', '2026-00-10', '2026-04-31'];
  for (const [says, ...texts] of [
    ['add Z or an offset', '2026-11-25T10:00:00', '2026-11-25T10:00:00.123456', '2026-02-03t10:00:00'],
    ['day that does not exist', ...days],
    ['second that does not exist', '2026-11-25T10:00:60Z', '2016-12-31T23:59:60+01:00'],
    ['written %2B', '2026-11-25T10:00:00 01:00'],
    ['must be a time such as', '2026-11-25(x)', '2026-11-25 PST', '2026-11-25T', '2026-1-2', '２026-11-25'],
    ['must be a time such as', '2026-11-25 10:00:00Z', '2026-11-25T10:00:00Z ', '2026-11-25T10:00Z'],
    ['must be a time such as', '2026-11-25T24:00:00Z', '2026-11-25T10:60:00Z', '2026-11-25T10:00:00+25:00'],
    ['must be a time such as', '2026-11-25T10:00:00+0100', '20261125', '1732528800', '+002026-11-25'],
    ['must be a time such as', '', 'now'],
  ] as [string, ...string[]][]) {
    it(`are refused otherwise: ${says} (${texts[0]})`, () => {
      for (const text of texts) {
        assert.match(String(readTime(text)), new RegExp(says.replace('%', '\\%')), text);
        assert.throws(() => when.parse(text), /how long ago/, text);
      }
    });
  }
});
