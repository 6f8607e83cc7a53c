import assert from 'node:assert/strict';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { explainRemarks } from '../../src/outgoing/details.js';
import { tried } from '../families.js';
import { requestTo, useNetwork } from './rawReceiver.js';

const page = Array.from({ length: 400 }, (_, i) => `line ${i * 7919} of a log, ü`).join('; ');
/** How a body is packed, and whether its text comes out of it again. */
const packings: [coding: string, pack: (text: Buffer) => Buffer, isReadable: boolean][] = [
  ['', (text) => text, true],
  ['identity', (text) => text, true],
  ['gzip', gzipSync, true],
  ['X-GZIP', gzipSync, true],
  ['deflate', deflateSync, true],
  ['deflate', deflateRawSync, true],
  ['Br', brotliCompressSync, true],
  ['gzip, br', (text) => brotliCompressSync(gzipSync(text)), true],
  ['gzip', (text) => text, true],
  ['gzip', (text) => deflateSync(text), true],
  ['zstd', () => Buffer.from('28b52ffd0458210000616263', 'hex'), false],
  ['br', gzipSync, false],
  ['compress', (text) => text, false],
];
/** A charset, its bytes for a text, and whether they are told. */
const charsets: [charset: string, write: (text: string) => Buffer, isReadable: boolean][] = [
  ...['', 'utf-8', 'utf8mb4', 'cp437', 'unknown'].map((charset): (typeof charsets)[0] => [
    charset,
    (text) => Buffer.from(text),
    true,
  ]),
  ['iso-8859-1', (text) => Buffer.from(text, 'latin1'), true],
  ['cp437', (text) => Buffer.from(text.replaceAll('ü', '\x81'), 'latin1'), false],
  ['', (text) => Buffer.from(text, 'utf16le'), true],
  ['utf-16be', (text) => Buffer.from(text, 'utf16le').swap16(), true],
  ['unknown', (text) => Buffer.from(text, 'utf16le'), false],
  ['utf-7', (text) => Buffer.from(text.replaceAll('ü', '+APw-')), false],
];

describe('the body of a failed answer', () => {
  const { start, sending } = useNetwork();

  async function post(body: Buffer, coding: string, charset = '') {
    const head = [
      'HTTP/1.1 500 No',
      ...(coding === '' ? [] : [`Content-Encoding: ${coding}`]),
      ...(charset === '' ? [] : [`Content-Type: text/html; charset=${charset}`]),
    ].join('\r\n');
    const { url } = await start({
      answer: (s) => s.end(Buffer.concat([Buffer.from(`${head}\r\n\r\n`), body])),
    });
    const { status, responseExcerpt, remarks } = await sending().post(requestTo(url));
    assert.equal(status, 500);
    return { responseExcerpt, remarks };
  }

  const all = packings.flatMap((packing) =>
    charsets.flatMap((charset) => ['denied: ünknown key', page].map((text) => ({ packing, charset, text }))),
  );
  type Row = (typeof all)[number];
  const isPlain = ({ packing, charset }: Row) => packing === packings[0] || charset === charsets[0];
  const odd = all.filter((row) => !isPlain(row));
  for (const { packing, charset: named, text } of [...all.filter(isPlain), ...tried(odd, 7)]) {
    const [coding, pack, isUnpacked] = packing;
    const [charset, write, isTold] = named;
    const bytes = write(text);
    // Of plain text that is called packed only valid UTF-8 passes for that.
    const isMistaken = pack(bytes) === bytes && coding === 'gzip' && !bytes.equals(Buffer.from(text));
    const isReadable = isUnpacked && isTold && !isMistaken;
    it(`as ${coding || 'plain'} (${pack.name || 'as named'}), ${charset || 'no charset'} (${bytes.length} bytes of ${text.length}) is ${isReadable ? 'shown' : 'said not to be shown'}`, async () => {
      const { responseExcerpt, remarks } = await post(pack(bytes), coding, charset);
      if (!isReadable)
        return assert.deepEqual([responseExcerpt, remarks], [undefined, ['answer_unreadable']]);
      assert.equal(remarks, undefined);
      assert.ok(
        responseExcerpt !== undefined && responseExcerpt.length > 18 && text.startsWith(responseExcerpt),
      );
    });
  }

  for (const [coding, pack] of packings.filter(([coding]) => /^(gzip|deflate)$/.test(coding)).slice(0, 3))
    it(`that becomes a thousand times longer, or is broken after its beginning, as ${coding}, is shown`, async () => {
      const bomb = pack(Buffer.alloc(1_000_000, 'a'));
      const random = pack(Buffer.from(page));
      const broken = Buffer.concat([random.subarray(0, 900), Buffer.alloc(2_000, 0xff)]);
      assert.equal((await post(bomb, coding)).responseExcerpt, 'a'.repeat(1_024));
      assert.ok(page.startsWith((await post(broken, coding)).responseExcerpt ?? 'nothing'));
    });

  it('is advised on', () => assert.match(explainRemarks(['answer_unreadable']).join(), /text in UTF-8/));
});
