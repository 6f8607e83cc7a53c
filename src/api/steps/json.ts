import { isUtf8 } from 'node:buffer';
import type { Context, Request } from 'koa';
import { koaBody } from 'koa-body';
import type { z } from 'zod';
import { checkInput } from '../../checkInput.js';
import { badParameter, unreadableBody } from '../apiError.js';
import type { Step } from '../step.js';

/**
 * Reads a body of JSON with koa-body, as state.json; undefined if there is none.
 * @throws with status 413 if it is too long, compressed or decompressed
 */
export function readJson(atMostBytes: number): Step<{ json: unknown }> {
  // koa-body returns text: in latin1 a character is a byte.
  const nothing = { json: false, text: false, urlencoded: false, multipart: false };
  const parser = koaBody({ ...nothing, text: true, textLimit: atMostBytes, encoding: 'latin1' });
  return async (ctx, next) => {
    const { req } = ctx;
    // The caller has hung up.
    if (!req.readable) throw unreadableBody();
    const request = {} as Request;
    // Called as for a text, so that it need not check the content type again.
    await parser({ method: 'POST', is: () => '*/*', req, request } as Context, async () => undefined);
    ctx.state.json = parseJson(Buffer.from(typeof request.body === 'string' ? request.body : '', 'latin1'));
    await next();
  };
}

/**
 * Parses JSON; undefined if there is none. RFC 8259, section 8.1: only UTF-8. Invalid bytes would otherwise all become the
 * same replacement character, and different names would become equal. @throws ApiError 400
 */
export function parseJson(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw unreadableBody();
  if (bytes.length === 0) return undefined;
  const text = bytes.toString();
  try {
    return JSON.parse(text);
  } catch (err) {
    throw badParameter(`The body is not JSON${placeOf(text, (err as Error).message)}`);
  }
}

/** Returns where a text stops being JSON. V8's message itself may quote the text, so it is not passed on. */
function placeOf(text: string, message: string): string {
  const [, position] = /at position (\d+)/.exec(message) ?? [];
  // The text around the mistake, from ten characters before it.
  const [, around] = /\.\.\."(.*)"/s.exec(message) ?? [];
  const at = position ?? (around === undefined ? undefined : text.indexOf(around) + 10);
  if (at === undefined) return message.includes('end of JSON') ? ': it ends too early' : '';
  const lines = text.slice(0, Number(at)).split('\n');
  return `: see line ${lines.length}, column ${(lines.at(-1)?.length ?? 0) + 1}`;
}

/** Returns a caller's input that fits its schema; an absent one counts as `{}`. @throws ApiError 400 naming every problem */
export function checked<T>(schema: z.ZodType<T>, input: unknown): T {
  const result = checkInput(schema, input ?? {});
  if ('problem' in result) throw badParameter(result.problem);
  return result.data;
}
