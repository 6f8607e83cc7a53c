import { ApiError } from '../../apiError.js';
import type { Step } from '../../composeSteps.js';
import { pairsOf } from '../parameters.js';
import { type Charset, charsetOf, type Form, formDecoded, formOf } from './form.js';
import { bytesReader } from './readBody.js';
import { readMultipart } from './readMultipart.js';
import { readPlain } from './readPlain.js';

const formAtMostBytes = 16 * 1024;
const urlencoded = 'application/x-www-form-urlencoded';
const multipart = 'multipart/form-data';

/** Reads the fields of the body, in one of the two encodings of a form, as state.form. @throws ApiError 400, 413, 415 */
export const readForm: Step<{ form: Form }> = async (ctx, next) => {
  const contentType = ctx.req.headers['content-type'] ?? '';
  const type = contentType.split(';', 1)[0]?.trim().toLowerCase();
  if (type !== urlencoded && type !== multipart) {
    throw new ApiError('unsupported_media_type', `The content type must be ${urlencoded} or ${multipart}`);
  }
  const charset = charsetOf(contentType);
  if (type === multipart) {
    ctx.state.form = await readMultipart(await readUnpacked(ctx.req), contentType, charset);
  } else {
    const isPlain = ctx.req.headers['content-encoding'] === undefined;
    const bytes = await (isPlain ? readPlain(ctx.req, formAtMostBytes) : readUnpacked(ctx.req));
    ctx.state.form = parseUrlencoded(bytes, charset);
  }
  await next();
};

const readUnpacked = bytesReader(formAtMostBytes);

/** @throws ApiError 400 */
export function parseUrlencoded(bytes: Buffer, charset: Charset): Form {
  const pairs = pairsOf(bytes.toString('latin1'));
  return formOf(pairs.map(([name, value]) => [formDecoded(name, charset), formDecoded(value, charset)]));
}
