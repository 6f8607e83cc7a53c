import type { IncomingMessage } from 'node:http';
import { koaBody } from 'koa-body';
import { ApiError, badParameter } from './apiError.js';
import { type Charset, charsetOf, formDecoded } from './charset.js';
import type { Step } from './endpoint.js';
import { type Form, formOf } from './form.js';
import { parametersAtMost, shown } from './parameters.js';
import { bytesReader, nothing, parsedBy } from './readBody.js';
import { readMultipart } from './readMultipart.js';

const formAtMostBytes = 16 * 1024;
const urlencoded = 'application/x-www-form-urlencoded';
const multipart = 'multipart/form-data';

/** The fields of the body, in either of the two encodings of a form, as state.form. @throws ApiError 400, 413, 415 */
export const readForm: Step<{ form: Form }> = async (ctx, next) => {
  const contentType = ctx.req.headers['content-type'] ?? '';
  const type = contentType.split(';', 1)[0]?.trim().toLowerCase();
  if (type !== urlencoded && type !== multipart) {
    throw new ApiError('unsupported_media_type', `The content type must be ${urlencoded} or ${multipart}`);
  }
  const charset = charsetOf(contentType);
  ctx.state.form =
    type === urlencoded
      ? await readUrlencoded(ctx.req, charset)
      : await readMultipart(await readBytes(ctx.req), contentType, charset);
  await next();
};

/** koa-body does not unpack what is multipart, nor bound it as a whole: it gets the bytes. */
const readBytes = bytesReader(formAtMostBytes);

/** @throws ApiError 400; with status 413 what is too long */
export async function readUrlencoded(req: IncomingMessage, charset: Charset): Promise<Form> {
  const parsed = (await parsedBy(urlencodedParsers[charset], req)) ?? {};
  return formOf(Object.entries(parsed).map(([name, value]) => [name, onlyText(name, value)]));
}

/** What is given twice comes as a list. */
function onlyText(name: string, value: unknown): string {
  if (typeof value === 'string') return value;
  throw badParameter(`The parameter ${shown(name)} is repeated`);
}

const urlencodedParsers = {
  'utf-8': urlencodedParser('utf-8'),
  'iso-8859-1': urlencodedParser('iso-8859-1'),
};

function urlencodedParser(charset: Charset) {
  return koaBody({
    ...nothing,
    urlencoded: true,
    formLimit: formAtMostBytes,
    encoding: 'latin1',
    queryString: {
      // Names are names: no path of dots or brackets, no list.
      allowDots: false,
      depth: 0,
      parseArrays: false,
      plainObjects: true,
      parameterLimit: parametersAtMost + 1,
      decoder: (encoded: string) => formDecoded(encoded, charset),
    },
  });
}
