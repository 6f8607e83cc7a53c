import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { ApiError } from '../../src/api/apiError.js';
import { clientAddress } from '../../src/api/clientAddress.js';
import { formAtMostBytes, parseMultipart } from '../../src/api/steps/body.js';
import { parametersAtMost, parseParameters } from '../../src/api/steps/query.js';
import { type ParserCase, parserCases, parserTimeMs, requestVia } from './parserCases.js';

describe('parsers of what strangers send', () => {
  describe('take time that grows no faster than their input', () => {
    const small = 1 / 16;
    /** Linear is 16, quadratic 256: between them, in factors, so that a busy machine fails nothing. */
    const growthAtMost = 64;
    /** Below it the clock says nothing, and nobody is held up. */
    const shortMs = 1;
    /** A parser that is too slow is so each time; a machine is busy only for a moment. */
    const tries = 3;

    for (const one of parserCases) {
      it(one.name, async () => {
        await assertGrowth(one);
      });
    }

    async function assertGrowth(one: ParserCase): Promise<void> {
      const seen: string[] = [];
      for (let tried = 0; tried < tries; tried++) {
        const few = await parserTimeMs(one, one.bytesAtMost * small);
        const all = await parserTimeMs(one, one.bytesAtMost);
        if (all < shortMs || all < few * growthAtMost) return;
        seen.push(`${few} ms, then ${all} ms`);
      }
      assert.fail(seen.join('; '));
    }
  });

  describe('parameters', () => {
    const refusal = (query: string): ApiError => {
      try {
        parseParameters(query);
      } catch (err) {
        assert.ok(err instanceof ApiError);
        return err;
      }
      return assert.fail('it was taken');
    };

    it('are read up to the limit, with anything behind it', () => {
      const names = Array.from({ length: parametersAtMost }, (_, i) => `k${i}=1`).join('&');
      assert.equal(parseParameters(names).size, parametersAtMost);
      assert.equal(refusal(`${names}&one=more&%zz`).code, 'too_many_parameters');
    });

    it('are each accepted and decoded once, also one named like a property', () => {
      assert.deepEqual(
        [...parseParameters('__proto__=a%2Bb+c&constructor&&x==%25')],
        [
          ['__proto__', 'a+b c'],
          ['constructor', ''],
          ['x', '=%'],
        ],
      );
      assert.match(refusal('a=1&%61=2').message, /a is repeated/);
      assert.match(refusal('a=%e9').message, /a is not correctly percent-encoded/);
    });
  });

  it('are not those of ctx.query, which take quadratic time', () => {
    const folder = join(import.meta.dirname, '../../src/api');
    for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' }))
      if (file.endsWith('.ts'))
        assert.doesNotMatch(readFileSync(join(folder, file), 'utf8'), /[^`]ctx\.query\b/);
  });

  it('read the newest 16 addresses of X-Forwarded-For, with or without a port, from a trusted proxy only', () => {
    const names = (count: number) =>
      Array.from({ length: count }, (_, i) => `10.0.${i >> 8}.${i & 255}`).join(', ');
    const addressOf = (header: string, trusted = '10.0.0.0/8') =>
      clientAddress(requestVia('10.0.0.1', header), [trusted]);
    assert.equal(addressOf('198.51.100.7', '::ffff:10.0.0.0/104'), '198.51.100.7');
    assert.equal(addressOf(`203.0.113.7, ${names(15)}`), '203.0.113.7');
    assert.equal(addressOf(`203.0.113.7, ${names(256)}`), '10.0.0.240');
    assert.equal(addressOf('203.0.113.7:50123, 10.0.0.2:443'), '203.0.113.7');
    assert.equal(addressOf('[2001:db8::1]:50123'), '2001:db8::1');
    const stranger = requestVia('203.0.113.9', '198.51.100.1');
    assert.equal(clientAddress(stranger, ['10.0.0.0/8']), '203.0.113.9');
  });

  it('read or refuse a form of any bytes in a millisecond of CPU, without other errors', async () => {
    const beside: unknown[] = [];
    const note = (err: unknown) => beside.push(err);
    process.on('unhandledRejection', note);
    const disposition = 'content-disposition: form-data; name="a"';
    const piece = fc.oneof(
      fc.constantFrom('--b', '--b--', '\r\n', '\r', '\n', '\r\n\r\n', '%41'),
      fc.constantFrom(':', ';', '"', '=', '&', '%', '[', ' '),
      fc.constantFrom(disposition, 'content-type: text/plain; charset=latin1', 'content-transfer-encoding: '),
      fc.constantFrom('7bit', 'base64', 'quoted-printable', 'filename="f"', 'name=a', '\u0000', '\xff'),
      fc.string({ maxLength: 60 }),
    );
    const repeated = fc
      .tuple(piece, fc.oneof(fc.constant(1), fc.nat(4096)))
      .map(([text, n]) => text.repeat(n));
    const parsers = [
      (body: Buffer) => parseMultipart(body, 'multipart/form-data; boundary=b'),
      async (body: Buffer) => parseParameters(body.toString()),
    ];
    await fc.assert(
      fc.asyncProperty(fc.array(repeated, { maxLength: 60 }), async (pieces) => {
        const body = Buffer.from(pieces.join('').slice(0, formAtMostBytes), 'latin1');
        for (const parse of parsers) {
          await parse(body).catch((err: unknown) => assert.ok(err instanceof ApiError, String(err)));
          const measured = { make: () => body, parse: () => parse(body) };
          // Only the parser itself is slow each time, not a busy machine or a new heap.
          if ((await parserTimeMs(measured, 0, 1)) >= 1) assert.ok((await parserTimeMs(measured, 0, 15)) < 1);
        }
      }),
      { numRuns: 1000 },
    );
    await new Promise(setImmediate);
    process.off('unhandledRejection', note);
    assert.deepEqual(beside, []);
  });
});
