/**
 * What a receiver has to say yes and no to: requests of the real signer, some of them changed afterwards. With a fixed
 * time they are docs/reference/signature-vectors.json, which `npx tsx test/examples/vectors.ts` writes; with the time of day
 * they are sent to the examples.
 */
import { createHmac } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { notificationRequest } from '../../src/outgoing/notification.js';

export interface Vector {
  name: string;
  /** The secrets that the receiver holds. */
  secrets: string[];
  /** The receiver's clock, unix seconds. */
  now: number;
  headers: Record<string, string>;
  body: string;
  body_base64: string;
  valid: boolean;
  why: string;
}

/** Of no client: 32 bytes each, made up. */
const secret = (byte: number): string => `whsec_${Buffer.alloc(32, byte).toString('base64')}`;
export const [current, previous, foreign] = [secret(0x11), secret(0x22), secret(0x33)] as const;

export const toleranceSeconds = 300;

/** @param now unix seconds */
export function vectors(now: number): Vector[] {
  /** A request as it is sent, `ageSeconds` ago; without the header that changes with each release. */
  const sent = (by: string[], { platformId = 'vid-9', ageSeconds = 0 } = {}) => {
    const { headers, body } = notificationRequest(
      { notificationId: 'msg_jfhzokNfZ9kbF9HeZ4b0Lw', clientToken: 'SITE0042', platformId },
      by,
      (now - ageSeconds) * 1000,
    );
    const { 'user-agent': _, ...lasting } = headers;
    return { headers: lasting as Record<string, string>, body };
  };
  type Sent = ReturnType<typeof sent>;

  const all: Vector[] = [];
  const add = (name: string, valid: boolean, why: string, request: Sent, secrets = [current]) =>
    all.push({
      name,
      secrets,
      now,
      headers: request.headers,
      body: request.body,
      body_base64: Buffer.from(request.body).toString('base64'),
      valid,
      why,
    });
  const good = (name: string, why: string, request: Sent, secrets?: string[]) =>
    add(name, true, why, request, secrets);
  const bad = (name: string, why: string, request: Sent, secrets?: string[]) =>
    add(name, false, why, request, secrets);

  const one = sent([current]);
  const [signature = ''] = one.headers['webhook-signature']?.split(' ') ?? [];
  const withHeaders = (headers: Record<string, string>): Sent => ({
    ...one,
    headers: { ...one.headers, ...headers },
  });
  const without = (name: string): Sent => {
    const { [name]: _, ...headers } = one.headers;
    return { ...one, headers };
  };

  good('good', 'signed with the secret, now', one);
  good('two minutes old', 'within 5 minutes of the clock', sent([current], { ageSeconds: 120 }));
  good('unicode body', 'the bytes of UTF-8 are signed', sent([current], { platformId: 'видео-ü-日本-🎬' }));
  good('escaped body', 'the escapes are signed as they are', sent([current], { platformId: 'a "b" \\ /c' }));
  good('rotated, receiver has the new secret', 'one of two signatures', sent([current, previous]));
  good('rotated, receiver has the old secret', 'one of two signatures', sent([previous, current]));
  good('receiver has both secrets', 'one of two secrets', sent([previous]), [current, previous]);
  good(
    'another version beside v1',
    'signatures of other versions are passed over',
    withHeaders({ 'webhook-signature': `v1a,AAAA v2,AAAA ${signature}` }),
  );

  bad('wrong secret', 'signed with another secret', sent([foreign]));
  bad('two signatures, neither of the receiver', 'signed with other secrets', sent([foreign, previous]));
  bad('two secrets, neither of the sender', 'signed with another secret', sent([foreign]), [
    current,
    previous,
  ]);
  bad('tampered body', 'the body is another', { ...one, body: one.body.replace('vid-9', 'vid-8') });
  bad('body written anew', 'the same JSON in other bytes', {
    ...one,
    body: JSON.stringify(JSON.parse(one.body), null, 1),
  });
  bad('tampered id', 'webhook-id is signed', withHeaders({ 'webhook-id': 'msg_another' }));
  bad('tampered time', 'webhook-timestamp is signed', withHeaders({ 'webhook-timestamp': String(now - 1) }));
  bad('old timestamp', 'sent 10 minutes ago', sent([current], { ageSeconds: 600 }));
  bad('future timestamp', 'sent 10 minutes from now', sent([current], { ageSeconds: -600 }));
  bad('timestamp is no number', 'no time', withHeaders({ 'webhook-timestamp': 'yesterday' }));
  for (const name of ['webhook-id', 'webhook-timestamp', 'webhook-signature']) {
    bad(`without ${name}`, 'a header is missing', without(name));
  }
  bad(
    'unknown version',
    'no signature of version v1',
    withHeaders({ 'webhook-signature': signature.replace('v1,', 'v2,') }),
  );
  bad('no version', 'no signature of version v1', withHeaders({ 'webhook-signature': signature.slice(3) }));
  bad('cut signature', 'half a signature', withHeaders({ 'webhook-signature': signature.slice(0, 20) }));
  const forged = (secret: string): Sent => {
    const content = `${one.headers['webhook-id']}.${now}.${one.body}`;
    const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
    const digest = createHmac('sha256', key).update(content).digest('base64');
    return withHeaders({ 'webhook-signature': `v1,${digest}` });
  };
  const short = `whsec_${Buffer.alloc(8, 0x44).toString('base64')}`;
  good('trailing blank', 'an empty secret beside a good one is left out', one, [current, '']);
  bad('trailing blank, signed with an empty key', 'anybody has the empty key', forged(''), [current, '']);
  bad('empty', 'anybody has the empty key', forged(''), ['']);
  bad('empty after its prefix', 'anybody has the empty key', forged(''), ['whsec_']);
  bad('short', 'a key has at least 24 bytes', forged(short), [short]);

  bad('not base64', 'no signature', withHeaders({ 'webhook-signature': 'v1,%%%' }));
  return all;
}

export const recordedVectorsFile = join(import.meta.dirname, '../../docs/reference/signature-vectors.json');

/** 2026-11-22T12:00:00Z */
const recordedAt = 1_795_348_800;

/** The text of the file. */
export function recordedVectors(): string {
  const file = {
    about: 'Requests to a receiver, and whether it may take them. See docs/guides/receivers.md.',
    signature: 'Standard Webhooks 1.0.0: v1, HMAC-SHA256 of <webhook-id>.<webhook-timestamp>.<body>',
    tolerance_seconds: toleranceSeconds,
    vectors: vectors(recordedAt),
  };
  return `${JSON.stringify(file, null, 2)}\n`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
  writeFileSync(recordedVectorsFile, recordedVectors());
