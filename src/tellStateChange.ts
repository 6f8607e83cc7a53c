import type { Logger } from './log.js';
import type { EndpointState } from './redis/records/endpoint.js';

export interface ToldChange {
  clientToken: string;
  from: EndpointState | 'not_registered';
  to: EndpointState | 'not_registered';
  why: string;
}

/** Logs and counts a change of a registration's state. A suspension is logged as an error, because somebody must act. */
export function tellStateChange(
  { log, metrics }: { log: Logger; metrics: { entered(state: string): void } },
  { clientToken, from, to, why }: ToldChange,
): void {
  if (from === to) return;
  metrics.entered(to);
  const level = to === 'suspended' ? 'error' : to === 'failing' ? 'warn' : 'info';
  log[level]({ client_token: clientToken, from, to, why }, 'a registration changed its state');
}
