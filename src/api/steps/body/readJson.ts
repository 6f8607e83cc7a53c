import { isUtf8 } from 'node:buffer';
import { unreadableBody } from '../../apiError.js';
import type { Step } from '../../composeSteps.js';

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
