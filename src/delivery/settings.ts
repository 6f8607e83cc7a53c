import type { Config } from '../config.js';
import type { DeliverySchedule } from '../redis/owed/settle.js';

/** The settings that decide when and how notifications are sent. */
export interface DeliverySettings extends DeliverySchedule {
  /** How long an attempt holds its asset: its timeout, and 5 s for a short wait before it, the resolver, and to settle it. */
  leaseMs: number;
  maxInFlight: number;
  drainPerSecond: number;
  retentionMs: number;
}

/** Reads the settings of deliveries, in milliseconds. */
export function deliveryOf(config: Config): DeliverySettings {
  return {
    retryScheduleMs: config.RETRY_SCHEDULE_SECONDS.map((s) => s * 1000),
    retryWindowMs: config.RETRY_WINDOW_SECONDS * 1000,
    failingAfter: config.FAILING_AFTER,
    probeScheduleMs: config.PROBE_SCHEDULE_SECONDS.map((s) => s * 1000),
    suspendAfterMs: config.SUSPEND_AFTER_SECONDS * 1000,
    leaseMs: config.ATTEMPT_TIMEOUT_SECONDS * 1000 + 5000,
    maxInFlight: config.MAX_IN_FLIGHT,
    drainPerSecond: config.DRAIN_PER_SECOND,
    retentionMs: config.OWED_RETENTION_DAYS * 86_400_000,
  };
}
