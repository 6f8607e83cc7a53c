import type { Client } from '@temporalio/client';
import type { Db } from '../store/db.js';

export interface Readiness {
  redis: boolean;
  temporal: boolean;
}

const answerWithinMs = 1500;

/** Whether Redis and Temporal answer now. */
export async function checkReadiness(db: Db, temporal: Client): Promise<Readiness> {
  const [redis, temporalUp] = await Promise.all([
    answers(db.redis.ping()),
    answers(temporal.workflowService.getSystemInfo({})),
  ]);
  return { redis, temporal: temporalUp };
}

/** Client calls to Temporal have no deadline of their own while it is away. */
async function answers(call: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), answerWithinMs);
  });
  const answered = call.then(
    () => true,
    () => false,
  );
  return await Promise.race([answered, late]).finally(() => clearTimeout(timer));
}
