import { Response } from 'undici';
import { ApiError, badParameter, unreadableBody } from '../../apiError.js';
import type { Step } from '../../composeSteps.js';
import { pairsOf } from '../parameters.js';
import { type Charset, charsetOf, type Form, formDecoded, formOf } from './form.js';
import { readPlain } from './readPlain.js';

/** Anybody may send a form, before any limit: its size bounds what parsing costs (docs/bad-input.md). */
export const formAtMostBytes = 4 * 1024;
const urlencoded = 'application/x-www-form-urlencoded';
const multipart = 'multipart/form-data';
/** The encodings of a form, as the description of the API names them. */
export const formTypes = [urlencoded, multipart];

/** Reads the fields of the body, in one of the two encodings of a form, as state.form. @throws ApiError 400, 413, 415 */
export const readForm: Step<{ form: Form }> = async (ctx, next) => {
  const { 'content-type': contentType = '', 'content-encoding': encoding } = ctx.req.headers;
  const type = contentType.split(';', 1)[0]?.trim().toLowerCase();
  if (type !== urlencoded && type !== multipart) {
    throw new ApiError('unsupported_media_type', `The content type must be ${urlencoded} or ${multipart}`);
  }
  if (encoding !== undefined) {
    throw new ApiError('unsupported_media_type', 'A form must not have a Content-Encoding');
  }
  const charset = charsetOf(contentType);
  const bytes = await readPlain(ctx.req, formAtMostBytes);
  ctx.state.form =
    type === multipart ? await parseMultipart(bytes, contentType) : parseUrlencoded(bytes, charset);
  await next();
};

/** @throws ApiError 400 */
export function parseUrlencoded(bytes: Buffer, charset: Charset): Form {
  const pairs = pairsOf(bytes.toString('latin1'));
  return formOf(pairs.map(([name, value]) => [formDecoded(name, charset), formDecoded(value, charset)]));
}

/**
 * Parses with undici, whose time is linear, and which takes what 25 programs send (test/api/recorded). It reads every
 * value as UTF-8; of credentials and scopes only ASCII is ever valid.
 * @throws ApiError 400
 */
export async function parseMultipart(bytes: Buffer, contentType: string): Promise<Form> {
  const body = new Response(bytes, { headers: { 'Content-Type': contentType } });
  const parts = await body.formData().catch(() => {
    throw unreadableBody();
  });
  return formOf(
    [...parts].map(([name, value]): [string, string] => {
      if (typeof value !== 'string') throw badParameter('A file is not accepted here');
      return [name, value];
    }),
  );
}
