/** Files that pages load, and pages that never change: compressed once, with an ETag. */
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type Router from '@koa/router';
import type { Context } from 'koa';
import { pageHeaders } from './html.js';

export function mountFiles(router: Router, files: Readonly<Record<string, PackedFile>>): void {
  for (const [path, file] of Object.entries(files))
    router.get(path, async (ctx) => {
      ctx.body = await file(ctx);
    });
}

type PackedFile = ReturnType<typeof packedFile>;

/** Returns a function that answers with a file, compressed once, at its first request: compression takes 60 ms of CPU. */
export function packedFile(type: string, read: () => string | Promise<Buffer>) {
  let packed: ReturnType<typeof pack> | undefined;
  return async (ctx: Context): Promise<Buffer | null> => {
    packed ??= pack(read);
    const { plain, zipped, etag } = await packed;
    ctx.set({ ...pageHeaders, 'Cache-Control': 'no-cache' });
    ctx.type = type;
    // One for both codings, so a weak one.
    ctx.etag = `W/"${etag}"`;
    ctx.vary('Accept-Encoding');
    ctx.status = 200;
    if (ctx.fresh) {
      ctx.status = 304;
      return null;
    }
    if (ctx.acceptsEncodings('gzip', 'identity') !== 'gzip') return plain;
    ctx.set('Content-Encoding', 'gzip');
    return zipped;
  };
}

async function pack(read: () => string | Promise<Buffer>) {
  const plain = Buffer.from(await read());
  const etag = createHash('sha256').update(plain).digest('base64url').slice(0, 22);
  return { plain, zipped: await promisify(gzip)(plain), etag };
}
