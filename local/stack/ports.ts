import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PortPlan } from '../portPlan.js';
import { type TemporalPorts, temporalPortNames } from './temporalServer.js';

export type PartName =
  | 'redis'
  | 'replica'
  | 'postgresql'
  | 'temporal'
  | 'service-1'
  | 'service-2'
  | 'balancer'
  | 'prometheus';

export interface StackPorts {
  /** Ports of every part but Temporal, and further ports of the balancer and the service. */
  ports: Readonly<Record<Exclude<PartName, 'temporal'> | 'balancer-health' | 'admin-1' | 'admin-2', number>>;
  temporal: TemporalPorts;
}

/**
 * Chooses the usual ports if they are free.
 * @param dir keeps the ports by which Temporal's services know each other. With other ports the next start would take a minute,
 * in which the services look for the earlier ones
 */
export async function chooseStackPorts(
  plan: Pick<PortPlan, 'preferably' | 'any'>,
  dir: string,
): Promise<StackPorts> {
  const ports: StackPorts['ports'] = {
    balancer: await plan.preferably('PORT', 3000),
    'service-1': await plan.preferably('STACK_SERVICE_1_PORT', 3001),
    'service-2': await plan.preferably('STACK_SERVICE_2_PORT', 3002),
    'balancer-health': await plan.preferably('STACK_BALANCER_HEALTH_PORT', 8404),
    'admin-1': await plan.preferably('ADMIN_PORT', 9464),
    'admin-2': await plan.preferably('STACK_ADMIN_2_PORT', 9465),
    redis: await plan.preferably('REDIS_PORT', 6379),
    replica: await plan.preferably('STACK_REPLICA_PORT', 6380),
    postgresql: await plan.preferably('STACK_POSTGRESQL_PORT', 5432),
    prometheus: await plan.preferably('STACK_PROMETHEUS_PORT', 9090),
  };
  const file = join(dir, 'temporal-ports.json');
  const before = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Partial<TemporalPorts>) : {};
  const temporal: Record<string, number> = {};
  for (const name of temporalPortNames) {
    temporal[name] =
      name === 'FRONTEND_GRPC_PORT'
        ? await plan.preferably('TEMPORAL_PORT', 7233)
        : await plan.any(before[name]);
  }
  writeFileSync(file, `${JSON.stringify(temporal, null, 2)}\n`);
  return { ports, temporal: temporal as TemporalPorts };
}
