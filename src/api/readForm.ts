import { ApiError } from './apiError.js';
import type { Step } from './endpoint.js';

/** The values of each field, trimmed, in the order given. */
export type Form = ReadonlyMap<string, readonly string[]>;

export const formAtMostBytes = 16 * 1024;
const urlencoded = 'application/x-www-form-urlencoded';
const multipart = 'multipart/form-data';
const charsets = ['', 'utf-8', 'utf8', 'us-ascii'];

/** Only the two encodings of a form, in UTF-8. */
export const acceptForm: Step = (ctx, next) => {
  // What nearly every caller sends needs no parsing of the header.
  if (ctx.req.headers['content-type'] === urlencoded) return next();
  const type = ctx.request.type.toLowerCase();
  if (type !== urlencoded && type !== multipart) {
    throw new ApiError('unsupported_media_type', `The content type must be ${urlencoded} or ${multipart}`);
  }
  if (!charsets.includes(ctx.request.charset.toLowerCase())) {
    throw new ApiError('unsupported_media_type', 'The charset must be UTF-8');
  }
  return next();
};

/** The fields of state.body, as state.form. */
export const readForm: Step<{ body: Buffer; form: Form }> = async (ctx, next) => {
  const type = ctx.req.headers['content-type'] ?? '';
  ctx.state.form =
    type === urlencoded || ctx.request.type.toLowerCase() === urlencoded
      ? fieldsOfForm(ctx.state.body.toString('latin1'))
      : await fieldsOfMultipart(ctx.state.body, type);
  await next();
};

function fieldsOfForm(body: string): Form {
  const fields = new Map<string, string[]>();
  for (const pair of body.split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const name = equals < 0 ? pair : pair.slice(0, equals);
    add(fields, decode(name), decode(equals < 0 ? '' : pair.slice(equals + 1)));
  }
  return fields;
}

function decode(encoded: string): string {
  if (plain.test(encoded)) return encoded;
  try {
    const bytes = Buffer.from(encoded.replaceAll('+', ' '), 'latin1');
    return decodeURIComponent(utf8.decode(bytes));
  } catch {
    throw unreadable();
  }
}

const plain = /^[A-Za-z0-9._~:/-]*$/;
const utf8 = new TextDecoder('utf-8', { fatal: true });

async function fieldsOfMultipart(bytes: Buffer, contentType: string): Promise<Form> {
  const fields = new Map<string, string[]>();
  const data = await new Response(bytes, { headers: { 'content-type': contentType } })
    .formData()
    .catch(() => {
      throw unreadable();
    });
  for (const [name, value] of data) {
    if (typeof value !== 'string') throw new ApiError('invalid_request', 'A file is not accepted here');
    add(fields, name, value);
  }
  return fields;
}

function add(fields: Map<string, string[]>, name: string, value: string): void {
  const values = fields.get(name);
  if (values) values.push(value.trim());
  else fields.set(name, [value.trim()]);
}

const unreadable = (): ApiError => new ApiError('invalid_request', 'The body cannot be read');
