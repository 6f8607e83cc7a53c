import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { DataConverter, PayloadCodec } from '@temporalio/common';
import { type Config, ConfigError } from '../config.js';

/**
 * Loads the codecs of payloads from `TEMPORAL_PAYLOAD_CODEC`, a module whose default export is a `PayloadCodec` or a list
 * of them (the first one encodes first). Without it payloads are not encoded.
 *
 * @throws ConfigError if there is no such module, or no codec in it
 */
export async function loadDataConverter(config: Config): Promise<DataConverter> {
  const path = config.TEMPORAL_PAYLOAD_CODEC;
  if (path === undefined) return {};
  const payloadCodecs = [await load(path)].flat();
  if (payloadCodecs.length === 0 || !payloadCodecs.every(isCodec)) {
    throw new ConfigError(
      'wrong settings:\n  TEMPORAL_PAYLOAD_CODEC: its default export must be a payload codec (encode and decode), or a list of them',
    );
  }
  return { payloadCodecs };
}

async function load(path: string): Promise<unknown> {
  try {
    return ((await import(pathToFileURL(resolve(path)).href)) as { default?: unknown }).default;
  } catch (err) {
    const reason = err instanceof Error ? err.message : String(err);
    throw new ConfigError(
      `wrong settings:\n  TEMPORAL_PAYLOAD_CODEC: the module cannot be loaded: ${reason}`,
    );
  }
}

function isCodec(value: unknown): value is PayloadCodec {
  const { encode, decode } = (value ?? {}) as Partial<PayloadCodec>;
  return typeof encode === 'function' && typeof decode === 'function';
}
