/** AES-256-GCM over each payload, as a deployment that encrypts what Temporal stores would have it; the key is the test's. */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

const key = Buffer.alloc(32, 7);
const encoding = Buffer.from('binary/encrypted');

/** @type {import('@temporalio/common').PayloadCodec} */
const codec = {
  encode: async (payloads) =>
    payloads.map((payload) => {
      const nonce = randomBytes(12);
      const cipher = createCipheriv('aes-256-gcm', key, nonce);
      const plain = JSON.stringify({ metadata: textsOf(payload.metadata), data: base64(payload.data) });
      const data = Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
      return { metadata: { encoding }, data };
    }),
  decode: async (payloads) =>
    payloads.map((payload) => {
      if (!encoding.equals(payload.metadata?.encoding ?? Buffer.alloc(0))) return payload;
      const sealed = Buffer.from(payload.data ?? []);
      const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, 12));
      decipher.setAuthTag(sealed.subarray(-16));
      const plain = Buffer.concat([decipher.update(sealed.subarray(12, -16)), decipher.final()]);
      const { metadata, data } = JSON.parse(plain.toString());
      const entries = Object.entries(metadata).map(([name, text]) => [name, Buffer.from(text, 'base64')]);
      return { metadata: Object.fromEntries(entries), data: Buffer.from(data, 'base64') };
    }),
};

export default [codec];

function textsOf(metadata) {
  return Object.fromEntries(Object.entries(metadata ?? {}).map(([name, bytes]) => [name, base64(bytes)]));
}

function base64(bytes) {
  return Buffer.from(bytes ?? []).toString('base64');
}
