import { z } from 'zod';
import {
  headerNameAtMost,
  headerNamePattern,
  headerValueAtMost,
  headerValuePattern,
  isReservedHeader,
  ownHeadersAtMost,
} from '../../../outgoing/ownHeaders.js';
import type { RequestHeaders } from '../../../redis/records/requestHeaders.js';
import { badParameter } from '../../apiError.js';
import { checkedBody } from '../../steps/body/checkedBody.js';

const badName = 'a name begins with a letter and has at most 64 letters, digits and hyphens';

/** The schema of the body, also for the API's description. */
export const requestHeadersBody = z.strictObject({
  headers: z.record(
    z.string().max(headerNameAtMost).regex(headerNamePattern),
    z
      .string()
      .max(headerValueAtMost)
      .regex(headerValuePattern, 'it must be visible ASCII characters, with blanks only between them'),
    { error: ({ code }) => (code === 'invalid_key' ? badName : undefined) },
  ),
});

/** Reads `{headers: {name: value}}`; the names are returned in lower case. No message contains a value. @throws ApiError 400 */
export function headersOf(json: unknown): RequestHeaders {
  const entries = Object.entries(checkedBody(requestHeadersBody, json).headers);
  if (entries.length > ownHeadersAtMost)
    throw badParameter(`At most ${ownHeadersAtMost} headers are accepted`);
  const found = new Map<string, string>();
  for (const [name, value] of entries) {
    if (isReservedHeader(name)) {
      throw badParameter(`The header ${name} is reserved for the service, HTTP or proxies`);
    }
    if (found.has(name.toLowerCase())) throw badParameter(`The header ${name} occurs twice`);
    found.set(name.toLowerCase(), value);
  }
  return Object.fromEntries(found);
}
