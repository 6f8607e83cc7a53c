/** Carries operations out over HTTP, at the operators' door of a running service: no server of the service need be reachable. */
import type { OperatorsDoor } from '../config.js';
import { type Answer, nameOf, type Operation, Refused } from './operation.js';

/** With this type a call answers all of an `Answer`, a list whole, and warnings, where programs get the value alone. */
export const answerType = 'application/vnd.operator.answer+json';

type Received = Answer & { warnings: string[] };
type Input = Readonly<Record<string, unknown>>;

const answerWithinMs = 60_000;

/** @param input as it was typed. @throws Refused */
export async function carryOutThere(
  door: OperatorsDoor,
  operation: Operation,
  input: Input,
  reason: string | undefined,
): Promise<Answer> {
  const given = Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined));
  const { warnings, ...answer } = await (operation.changes
    ? ask(door, operation, {}, { ...given, reason })
    : ask(door, operation, given));
  for (const line of warnings) process.stderr.write(`${line}\n`);
  return answer;
}

async function ask(door: OperatorsDoor, operation: Operation, query: Input, body?: Input): Promise<Received> {
  const url = new URL(`/operator/${nameOf(operation).replaceAll(' ', '/')}`, door.url);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, String(value));
  const answer = await fetch(url, {
    method: operation.changes ? 'POST' : 'GET',
    headers: {
      accept: answerType,
      authorization: `Bearer ${door.token}`,
      ...(body && { 'content-type': 'application/json' }),
    },
    redirect: 'error',
    signal: AbortSignal.timeout(answerWithinMs),
    ...(body && { body: JSON.stringify(body) }),
  }).catch((err: Error & { cause?: NodeJS.ErrnoException }) => {
    const may = operation.changes ? '; the command may or may not have taken effect' : '';
    const why = err.cause?.code ?? (err.cause ?? err).message;
    throw new Refused(`The operators' door does not answer at ${url.origin} (${why})${may}.`);
  });
  const text = await answer.text();
  if (answer.ok && answer.headers.get('content-type')?.startsWith(answerType)) return JSON.parse(text);
  throw new Refused(
    answer.ok ? `There is no operators' door at ${url.origin}.` : messageOf(text, answer.status),
  );
}

function messageOf(body: string, status: number): string {
  try {
    const { msg } = JSON.parse(body) as { msg?: string };
    if (msg !== undefined) return `${msg.replace(/\.$/, '')}.`;
  } catch {
    // A proxy's own page.
  }
  return `The operators' door answered ${status}.`;
}
