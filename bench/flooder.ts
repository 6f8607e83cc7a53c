/** A process: sends one request over many connections, again and again, until it is told to stop. It yields the cores to the service. */
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { type Dispatcher, Pool } from 'undici';

export interface Flood {
  name: string;
  connections: number;
  request: Omit<Dispatcher.RequestOptions, 'origin'>;
}

export type ToFlooder = ({ kind: 'flood'; baseUrl: string } & Flood) | { kind: 'end' };
/** The answers by status. */
export type FromFlooder = { kind: 'ready' } | { kind: 'ended'; statuses: Record<number, number> };

const end = new AbortController();
setPriority(constants.priority.PRIORITY_LOW);
// Where Linux groups processes by session (sched(7), autogroup), the priority holds within the group, which has one of its own.
const group = '/proc/self/autogroup';
if (existsSync(group)) writeFileSync(group, String(constants.priority.PRIORITY_LOW));
process.on('message', (message: ToFlooder) => {
  if (message.kind === 'flood') void flood(message);
  else end.abort();
});
process.on('disconnect', () => process.exit());
tell({ kind: 'ready' });

async function flood({ baseUrl, connections, request }: Flood & { baseUrl: string }): Promise<void> {
  const pool = new Pool(baseUrl, { connections, pipelining: 1 });
  const statuses: Record<number, number> = {};
  const repeat = async () => {
    while (!end.signal.aborted) {
      const { statusCode, body } = await pool.request(request);
      await body.dump();
      statuses[statusCode] = (statuses[statusCode] ?? 0) + 1;
    }
  };
  const all = Promise.all(Array.from({ length: connections }, repeat));
  await Promise.race([all, once(end.signal, 'abort')]);
  all.catch(() => {});
  tell({ kind: 'ended', statuses });
  await pool.destroy();
}

function tell(message: FromFlooder): void {
  process.send?.(message);
}
