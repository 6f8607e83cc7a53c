import type { Db } from '../connection/db.js';
import { runScript, text } from '../connection/runScript.js';
import { script } from '../connection/script.js';

export type WaitReason =
  | 'no_registration'
  | 'paused'
  | 'suspended'
  | 'failing'
  | 'not_before'
  | 'in_flight'
  | 'retry';

export interface Plan {
  /** Owed assets that no attempt holds. */
  owed: number;
  /** Since when the oldest is owed, ms; 0 if nothing is owed. */
  oldestAt: number;
  /** Assets that may be attempted now, live before backfill, the oldest of each first; `probe` if the endpoint is failing. */
  mode: 'drain' | 'probe';
  items: { platformId: string; notificationId: string; priority: 'live' | 'backfill' }[];
  /** Without items: when to plan again, and why not before. With items: until more is due; -1: unknown. */
  inMs: number;
  reason: WaitReason;
  /** The client's own bound of attempts in flight. */
  maxInFlight?: number;
  /** Notifications that ended as failed by this call, because they had been owed for too long. */
  expired: number;
}

const plan = script('plan');

/** Plans catch-up's next attempts for a client, or how long it sleeps; ends notifications owed for too long. */
export async function planCatchUp(
  db: Db,
  clientToken: string,
  options: { limit: number; retentionMs: number },
): Promise<Plan> {
  const answer = (await runScript(db, plan, clientToken, [options.limit, options.retentionMs])) as [
    number,
    number,
    Buffer,
    Buffer[],
    number,
    Buffer,
    number,
    Buffer | null | undefined,
  ];
  const items: Plan['items'] = [];
  for (let i = 0; i + 2 < answer[3].length; i += 3) {
    items.push({
      platformId: text(answer[3][i]),
      notificationId: text(answer[3][i + 1]),
      priority: text(answer[3][i + 2]) === 'B' ? 'backfill' : 'live',
    });
  }
  return {
    owed: answer[0],
    oldestAt: answer[1],
    mode: text(answer[2]) as 'drain' | 'probe',
    items,
    inMs: answer[4],
    reason: text(answer[5]) as WaitReason,
    expired: answer[6],
    ...(answer[7] ? { maxInFlight: Number(text(answer[7])) } : {}),
  };
}
