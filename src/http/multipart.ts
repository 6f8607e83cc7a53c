/** Reads the parts of a form, also of a body that a program or a person has put together by hand. */
import { Response } from 'undici';
import { badParameter } from './apiError.js';
import { collectParameters, type Parameters } from './query.js';

export const multipart = 'multipart/form-data';

/**
 * Parses with undici: its time is linear, and it accepts what 24 programs send (test/api/recorded).
 * @throws ApiError 400
 */
export async function parseMultipart(bytes: Buffer, contentType: string): Promise<Parameters> {
  const [, quoted, plain = ''] = /;\s*boundary\s*=\s*(?:"([^"]*)"|([^\s;]+))/i.exec(contentType) ?? [];
  const boundary = quoted || plain;
  if (boundary === '') throw badParameter('The content type has no boundary: let the HTTP library set it');
  const text = mended(bytes.toString('latin1'), boundary);
  const headers = { 'Content-Type': `${multipart}; boundary=${ownBoundary}` };
  const body = new Response(Buffer.from(text, 'latin1'), { headers });
  const parts = await body.formData().catch(() => {
    throw badParameter(`A part of the body cannot be read: each begins with the line ${disposition}`);
  });
  return collectParameters(
    [...parts].map(([name, value]) => {
      if (typeof value !== 'string') throw badParameter('A file is not accepted here');
      return [name.trim(), value];
    }),
  );
}

/** undici refuses a boundary of less than 27 characters. */
const ownBoundary = 'boundary-of-27-characters-or-more';
const disposition = 'Content-Disposition: form-data; name="<name of the field>"';

/**
 * Returns the parts as RFC 7578 has them: with CRLF, headers on one line, the disposition `form-data`, nothing around them. No value
 * that is ever valid has a line end, so none is changed. @throws ApiError 400 where the meaning is not plain
 */
function mended(text: string, boundary: string): string {
  const lines: string[] = [];
  let place: 'before' | 'headers' | 'value' | 'end' = 'before';
  for (const line of text.split(/\r\n|\n|\r/)) {
    const kept = line.trimEnd();
    if (place !== 'end' && (kept === `--${boundary}` || kept === `--${boundary}--`)) {
      if (place === 'headers') throw noEmptyLine();
      place = kept.endsWith(`${boundary}--`) ? 'end' : 'headers';
      lines.push(`--${ownBoundary}${place === 'end' ? '--' : ''}`);
    } else if (place === 'value') lines.push(line);
    else if (place === 'headers') {
      if (/^[ \t]/.test(line) && kept !== '') lines.push(lines.pop() + line);
      else if (kept !== '' && !line.includes(':')) throw noEmptyLine();
      else lines.push(kept.replace(/^(content-disposition *:) *(inline|attachment)\b/i, '$1 form-data'));
      if (kept === '') place = 'value';
    }
  }
  if (place === 'before')
    throw badParameter(
      'The body does not have the boundary that the content type names: a line of -- and the boundary stands before each part',
    );
  if (place !== 'end')
    throw badParameter(
      'The body has no closing boundary: it ends with a line of --, the boundary that the content type names, and --',
    );
  return `${lines.join('\r\n')}\r\n`;
}

const noEmptyLine = () => badParameter('A part has no empty line between its headers and its value');
