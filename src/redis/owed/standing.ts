import { assetSlot, idToBytes } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { runTable } from '../connection/runScript.js';
import { script } from '../connection/script.js';
import type { NotificationState } from '../notifications/notificationStates.js';

/** A notification's record and the owed state of its asset, read at the same moment. Times are ms. */
export interface Standing {
  notificationId: string;
  /** From the record, or from the question; undefined if neither has it. */
  platformId?: string;
  /** Of its record; undefined if there is none. */
  state?: NotificationState;
  acceptedAt?: number;
  /** Whether it is in the client's list of notifications. */
  listed: boolean;
  /** Whether its asset is owed by this notification. */
  owed: boolean;
  owedSince?: number;
  due?: number;
  /** The asset's claim number; 0 if the asset was not given. */
  claim: number;
  /** Whether this notification claimed the asset last; false if the asset was not given. */
  lastClaim: boolean;
}

/** Notifications in one call, which blocks Redis for less than 1 ms. */
const notificationsPerCall = 100;

const standing = script('standing');

/** Reads standings, in the order asked. @returns also Redis' time of the last answer, ms */
export async function standingsOf(
  db: Db,
  clientToken: string,
  asked: readonly { notificationId: string; platformId?: string }[],
): Promise<{ standings: Standing[]; now: number }> {
  const standings: Standing[] = [];
  let now = 0;
  for (let i = 0; i < asked.length; i += notificationsPerCall) {
    const chunk = asked.slice(i, i + notificationsPerCall);
    const bytes: Buffer[] = [];
    const q = {
      asked: chunk.map(({ notificationId, platformId }) => {
        if (platformId === undefined) return [notificationId, '', ''];
        const { bucket, field } = assetSlot(platformId);
        bytes.push(field, sixteen(idToBytes(notificationId)));
        return [notificationId, platformId, bucket];
      }),
    };
    const [at, ...answers] = (await runTable(db, standing, clientToken, q, bytes)) as [number, ...Answer[]];
    now = at;
    answers.forEach((answer, n) => {
      standings.push(standingOf((chunk[n] as { notificationId: string }).notificationId, answer));
    });
  }
  return { standings, now };
}

/** Pads an id that the service did not make: the script reads 16 bytes of each. */
function sixteen(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, Buffer.alloc(16)], 16);
}

type Answer = [
  asset: string,
  state: string,
  acceptedAt: string,
  listed: number,
  owed: number,
  since: string,
  due: string,
  claim: number,
  isLast: number,
];

function standingOf(notificationId: string, answer: Answer): Standing {
  const [asset, state, acceptedAt, listed, owed, since, due, claim, isLast] = answer;
  return {
    notificationId,
    ...(asset !== '' && { platformId: asset }),
    ...(state !== '' && { state: state as NotificationState }),
    ...(acceptedAt !== '' && { acceptedAt: Number(acceptedAt) }),
    listed: listed === 1,
    owed: owed === 1,
    ...(since !== '' && { owedSince: Number(since) }),
    ...(due !== '' && { due: Number(due) }),
    claim,
    lastClaim: isLast === 1,
  };
}
