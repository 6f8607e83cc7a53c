/** Ids and fingerprints, and how each is derived. */
import { hash, randomBytes } from 'node:crypto';
import { shared } from './constants.js';

declare const brand: unique symbol;
type Branded<B> = string & { readonly [brand]: B };

export type AccountId = Branded<'AccountId'>;
export type ClientToken = Branded<'ClientToken'>;

/** `A-Z a-z 0-9 _ -`, 1 to 64 (contract, "Words"). */
export const clientTokenPattern = /^[A-Za-z0-9_-]{1,64}$/;
/** `A-Z a-z 0-9 . _ : -`, 1 to 128 (contract, section 4). */
export const eventIdPattern = /^[A-Za-z0-9._:-]{1,128}$/;

export const isClientToken = (value: string): value is ClientToken => clientTokenPattern.test(value);

/** Returns the client that gets the notices of an account, or of the `platform`. No client token of a customer has a colon. */
export const noticesClient = (accountId: string): ClientToken => `notices:${accountId}` as ClientToken;
export const isNoticesClient = (value: string): value is ClientToken => /^notices:[\w-]{1,64}$/.test(value);

export const newAccountId = (): AccountId => `acc_${randomBytes(9).toString('base64url')}` as AccountId;
export const newEventId = (): string => `evt-${randomBytes(12).toString('hex')}`;
/** Without a `-` at its beginning: programs of the command line would take the token for an option. */
export const newClientToken = () => randomBytes(9).toString('base64url').replace(/^-/, 'x') as ClientToken;

const idBytes = 16;

export interface PublishedEvent {
  clientToken: string;
  platformId: string;
  eventId: string;
  segments: readonly string[];
}

/**
 * Returns the id of the notification that an event may make. It is derived from client, asset, event id and segments,
 * so that every process and every retry computes the same id. The order of segments and repeats among them
 * have no meaning.
 */
export function notificationId(event: PublishedEvent): string {
  const parts = [event.clientToken, event.platformId, event.eventId, ...new Set([...event.segments].sort())];
  let all = '';
  for (const part of parts) all += `${Buffer.byteLength(part)}:${part}`;
  return idFromBytes(hash('sha256', all, 'buffer').subarray(0, idBytes));
}

export const idFromBytes = (bytes: Buffer): string => `msg_${bytes.toString('base64url')}`;

/** Returns the 16 bytes of a notification id, as the known segments of an asset hold them. */
export const idToBytes = (id: string): Buffer => Buffer.from(id.slice('msg_'.length), 'base64url');

/** Returns the id for the 16 bytes that a known asset holds; undefined if they are all zero. */
export const idOfAnswer = (bytes: Buffer): string | undefined =>
  bytes.some((byte) => byte !== 0) ? idFromBytes(bytes) : undefined;

export const notificationIdPattern = /^msg_[A-Za-z0-9_-]{22}$/;
export const isNotificationId = (value: string): boolean => notificationIdPattern.test(value);

/** Returns the fingerprints of an event's distinct segments, 6 bytes each, one after the other. */
export function segmentFingerprints(segments: readonly string[]): Buffer {
  const distinct = new Set(segments);
  const packed = Buffer.allocUnsafe(distinct.size * shared.fingerprintBytes);
  let at = 0;
  // A string with one character per byte takes a third of the time of a buffer.
  for (const segment of distinct)
    at += packed.write(hash('sha256', segment, 'binary'), at, shared.fingerprintBytes, 'latin1');
  return packed;
}

/** Per client: they keep each hash small enough for the compact encoding up to 8 million assets. */
export const knownBuckets = 0x4000;

/** Returns where an asset's known segments are stored: a bucket and a field of 8 bytes in it. */
export function assetSlot(platformId: string): { bucket: string; field: Buffer } {
  const digest = hash('sha256', platformId, 'buffer');
  return { bucket: (digest.readUInt16BE(0) % knownBuckets).toString(36), field: digest.subarray(2, 10) };
}

/** Returns what scripts are told of assets: the id, the bucket and the field of each, in turn. */
export const withSlots = (platformIds: readonly string[]): (string | Buffer)[] =>
  platformIds.flatMap((platformId) => {
    const { bucket, field } = assetSlot(platformId);
    return [platformId, bucket, field];
  });
