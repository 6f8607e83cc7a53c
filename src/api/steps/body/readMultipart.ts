import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { koaBody } from 'koa-body';
import { badParameter, unreadableBody } from '../../apiError.js';
import { parametersAtMost } from '../parameters.js';
import { type Charset, charsetOf, type Form, formOf, textOf } from './form.js';
import { nothing, parsedBy } from './readBody.js';

/**
 * Returns the fields of a multipart form, parsed by formidable, which koa-body brings. Every part is held in memory: by
 * default formidable writes a part with a Content-Type (.NET and Java always send one) to a file, and a part whose
 * Content-Transfer-Encoding is 7bit or 8bit ends the process.
 * @throws ApiError 400, 415
 */
export async function readMultipart(bytes: Buffer, contentType: string, charset: Charset): Promise<Form> {
  const parts: Part[] = [];
  const parser = koaBody({
    ...nothing,
    multipart: true,
    formidable: {
      // Called inside formidable, where it must not throw.
      onPart: (part) => {
        if (parts.length > parametersAtMost) return;
        const { name, headers = {} } = part as typeof part & Pick<Partial<Part>, 'headers'>;
        const chunks: Buffer[] = [];
        parts.push({ name, headers, chunks });
        part.on('data', (chunk: Buffer) => chunks.push(chunk));
      },
    },
  });
  await parsedBy(parser, requestOf(bytes, contentType)).catch(() => {
    throw unreadableBody();
  });
  return formOf(parts.map((part) => fieldOf(part, charset)));
}

/** Wraps the bytes in a request, which formidable reads from. */
function requestOf(bytes: Buffer, contentType: string): IncomingMessage {
  const req = new IncomingMessage(new Socket());
  req.headers = { 'content-type': contentType, 'content-length': String(bytes.length) };
  req.complete = true;
  req.push(bytes);
  req.push(null);
  return req;
}

interface Part {
  name: string | null;
  headers: Record<string, string>;
  chunks: Buffer[];
}

function fieldOf({ name, headers, chunks }: Part, charset: Charset): [name: string, value: string] {
  if (/\bfilename\*?\s*=/i.test(headers['content-disposition'] ?? '')) {
    throw badParameter('A file is not accepted here');
  }
  if (name === null) throw unreadableBody();
  return [name, textOf(Buffer.concat(chunks), charsetOf(headers['content-type'] ?? '', charset))];
}
