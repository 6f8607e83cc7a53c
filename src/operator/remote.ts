/** Carries operations out over HTTP, at the operators' door of a running service: no server of the service need be reachable. */
import { ConfigError, webOrigin } from '../config.js';
import type { ErrorCode } from '../http/errors.js';
import { explainFailure, tlsDetail } from '../outgoing/details.js';
import { type Answer, nameOf, type Operation, Refused } from './operation.js';

export type OperatorsDoor = Record<'url' | 'token', string>;

/** Returns where the operators' commands go over HTTP; undefined if they work on the stores. @throws ConfigError */
export function operatorsDoor(): OperatorsDoor | undefined {
  const [url, token] = ['OPERATOR_URL', 'OPERATOR_TOKEN'].map((name) => process.env[name]?.trim());
  if (token && !url) throw new ConfigError('OPERATOR_TOKEN is set, but OPERATOR_URL is not.');
  if (!url || token === undefined) return undefined;
  // No header carries it, and the error would quote it.
  if (!/^[!-~]+$/.test(token)) throw new ConfigError('OPERATOR_TOKEN is not one word of ASCII.');
  if (webOrigin.safeParse(url).success) return { url, token };
  throw new ConfigError('OPERATOR_URL is not an http or https address without a user and a path.');
}

/** With this type a call answers all of an `Answer`, a list whole, and warnings, where programs get the value alone. */
export const answerType = 'application/vnd.operator.answer+json';

const answerWithinMs = 60_000;

/** @param input as it was typed. @throws Refused */
export async function carryOutThere(
  door: OperatorsDoor,
  operation: Operation,
  input: Readonly<Record<string, unknown>>,
  reason: string | undefined,
): Promise<Answer> {
  const { changes } = operation;
  const url = new URL(`/operator/${nameOf(operation).replaceAll(' ', '/')}`, door.url);
  for (const [name, value] of Object.entries(changes ? {} : input))
    if (value !== undefined) url.searchParams.set(name, String(value));
  const type = changes && { 'content-type': 'application/json' };
  const headers = { accept: answerType, authorization: `Bearer ${door.token}`, ...type };
  const sent = changes && { method: 'POST', body: JSON.stringify({ ...input, reason }) };
  const signal = AbortSignal.timeout(answerWithinMs);
  const may = changes ? ' The command may or may not have taken effect.' : '';
  const { response, text } = await fetch(url, { redirect: 'error', signal, headers, ...sent })
    .then(async (response) => ({ response, text: await response.text() }))
    .catch((err: Error) => {
      throw new Refused(`The operators' door does not answer at ${url.origin} (${reasonOf(err)}).${may}`);
    });
  const problem = response.ok ? undefined : problemOf(text);
  const isDoor = problem?.code !== 'not_found';
  if (!response.ok && isDoor)
    throw new Refused(problem?.says ?? `The operators' door answered ${response.status}.${may}`);
  if (!response.headers.get('content-type')?.startsWith(answerType))
    throw new Refused(`There is no operators' door at ${url.origin}, or an older one.${isDoor ? may : ''}`);
  const { warnings, ...answer } = JSON.parse(text) as Answer & { warnings: string[] };
  for (const line of warnings) process.stderr.write(`${line}\n`);
  return answer;
}

/** The innermost cause says why, such as a proxy's refusal; of several addresses Node gives only the code. */
function reasonOf({ message, code = '', cause }: NodeJS.ErrnoException): string {
  if (cause instanceof Error) return reasonOf(cause);
  return code.startsWith('ERR_SSL_') ? explainFailure({ detail: tlsDetail(code) }).does : message || code;
}

/** Returns why the door refuses; undefined for a page of a proxy. */
function problemOf(body: string): { code: ErrorCode; says: string } | undefined {
  try {
    const { code, msg } = JSON.parse(body) as { code: ErrorCode; msg: string };
    return { code, says: `${code === 'invalid_token' ? 'OPERATOR_TOKEN: ' : ''}${msg.replace(/\.$/, '')}.` };
  } catch {
    return undefined;
  }
}
