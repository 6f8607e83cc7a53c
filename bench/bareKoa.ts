/**
 * A process: the yardstick for tokens. This Koa application reads the form's bytes, makes 32 random bytes, sends
 * one Redis SET with a TTL and answers. It has no validation, account, rate limit, metric or log.
 */
import { randomBytes } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { Redis } from 'ioredis';
import Koa from 'koa';

const redis = new Redis(process.env.REDIS_URL ?? '');
const app = new Koa();
app.use(async (ctx) => {
  for await (const chunk of ctx.req) void chunk;
  const token = randomBytes(32).toString('base64url');
  await redis.set(`bare:${token}`, '1', 'EX', 3600);
  ctx.body = { access_token: token, token_type: 'Bearer', expires_in: 3600, scope: 'push_notifications' };
});
const server = app.listen(0, '127.0.0.1', () => {
  process.send?.({ kind: 'ready', port: (server.address() as AddressInfo).port });
});
process.on('disconnect', () => process.exit());
