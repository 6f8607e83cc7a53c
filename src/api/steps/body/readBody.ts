import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { Context, Middleware, Request } from 'koa';
import { koaBody } from 'koa-body';
import type { z } from 'zod';
import { checkInput } from '../../../checkInput.js';
import { badParameter, unreadableBody } from '../../apiError.js';
import type { Step } from '../../composeSteps.js';

/** Reads the body's decompressed bytes with koa-body, as state.body, for any content type. */
export function readBody(atMostBytes: number): Step<{ body: Buffer }> {
  const read = bytesReader(atMostBytes);
  return async (ctx, next) => {
    ctx.state.body = await read(ctx.req);
    await next();
  };
}

/** @returns a reader of bodies; it throws with status 413 if a body is too long, compressed or decompressed */
export function bytesReader(atMostBytes: number): (req: IncomingMessage) => Promise<Buffer> {
  // koa-body returns text: in latin1 a character is a byte.
  const parser = koaBody({ ...nothing, text: true, textLimit: atMostBytes, encoding: 'latin1' });
  return async (req) => {
    const body = await parsedBy(parser, req);
    return Buffer.from(typeof body === 'string' ? body : '', 'latin1');
  };
}

/** koa-body's kinds of bodies, all of them off. */
export const nothing = { json: false, text: false, urlencoded: false, multipart: false };

/**
 * Makes a koa-body of one kind read a request of that kind, so that it need not check the content type again.
 * @throws ApiError 400 if the caller has hung up
 */
export async function parsedBy(parser: Middleware, req: IncomingMessage): Promise<Request['body']> {
  if (!req.readable) throw unreadableBody();
  const request = {} as Request;
  await parser({ method: 'POST', is: () => '*/*', req, request } as Context, async () => undefined);
  return request.body;
}

/**
 * Parses state.body as state.json; undefined if there is no body. RFC 8259, section 8.1: only UTF-8. Invalid bytes
 * would otherwise all become the same replacement character, and different names would become equal.
 */
export const readJson: Step<{ body: Buffer; json: unknown }> = async (ctx, next) => {
  const { body } = ctx.state;
  if (!isUtf8(body)) throw unreadableBody();
  try {
    ctx.state.json = body.length === 0 ? undefined : JSON.parse(body.toString());
  } catch {
    throw unreadableBody();
  }
  await next();
};

/** Returns a JSON body that fits its schema; an absent one counts as `{}`. @throws ApiError 400 naming the first problem */
export function checkedBody<T>(schema: z.ZodType<T>, json: unknown): T {
  const checked = checkInput(schema, json ?? {});
  if ('problem' in checked) throw badParameter(checked.problem);
  return checked.data;
}
