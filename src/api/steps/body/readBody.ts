import type { IncomingMessage } from 'node:http';
import type { Context, Middleware, Request } from 'koa';
import { koaBody } from 'koa-body';
import { unreadableBody } from '../../apiError.js';
import type { Step } from '../../endpoint.js';

/** Reads the body's bytes, unpacked, as state.body, of whatever content type, with koa-body. */
export function readBody(atMostBytes: number): Step<{ body: Buffer }> {
  const read = bytesReader(atMostBytes);
  return async (ctx, next) => {
    ctx.state.body = await read(ctx.req);
    await next();
  };
}

/** @returns a reader of bodies; it throws with status 413 for what is too long, also once it is unpacked */
export function bytesReader(atMostBytes: number): (req: IncomingMessage) => Promise<Buffer> {
  // koa-body answers with text: in latin1 a character is a byte.
  const parser = koaBody({ ...nothing, text: true, textLimit: atMostBytes, encoding: 'latin1' });
  return async (req) => {
    const body = await parsedBy(parser, req);
    return Buffer.from(typeof body === 'string' ? body : '', 'latin1');
  };
}

/** koa-body's kinds of bodies, all of them off. */
export const nothing = { json: false, text: false, urlencoded: false, multipart: false };

/**
 * Has a koa-body of one kind read a request of that kind: it need not look at the content type again.
 * @throws ApiError 400 where the caller has hung up
 */
export async function parsedBy(parser: Middleware, req: IncomingMessage): Promise<Request['body']> {
  if (!req.readable) throw unreadableBody();
  const request = {} as Request;
  await parser({ method: 'POST', is: () => '*/*', req, request } as Context, async () => undefined);
  return request.body;
}
