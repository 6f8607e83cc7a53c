/** `npm run bench -- neighbours`: the time of POST /enrichments beside a flood of each call of the API, by one account or by strangers. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { type Dispatcher, Pool, request } from 'undici';
import { startChild } from '../child.js';
import { positive } from '../optionValues.js';
import { percentile } from '../percentile.js';
import { startTheatre, type Theatre } from '../theatre.js';
import type { Flood, FromFlooder, ToFlooder } from './flooder.js';

interface Options {
  duration: number;
  rate: number;
  connections: number;
}

export const neighboursCommand = () =>
  new Command('neighbours')
    .description('The time of POST /enrichments beside a flood of each call, with the default limits.')
    .argument('[floods...]', 'parts of their names; all when none is given')
    .option('--duration <seconds>', 'of each flood', positive, 10)
    .option('--rate <n>', 'events per second', positive, 50)
    .option('--connections <n>', 'of the flood', positive, 128)
    .action(run);

async function run(named: string[], options: Options): Promise<void> {
  const theatre = await startTheatre({ split: false, givenPids: {}, defaultLimits: true });
  try {
    const clients = await theatre.cast.newRegisteredClients(20, theatre.receiverUrl);
    await measure(theatre, clients, options);
    const print = (
      name: string,
      { times, statuses }: Awaited<ReturnType<typeof measure>>,
      quiet?: number,
    ) => {
      const [p50, p99] = [percentile(times, 0.5), percentile(times, 0.99)];
      const beside = quiet === undefined ? '' : (p99 / quiet).toFixed(1);
      const answered = Object.entries(statuses).map(([status, count]) => `${status}: ${count}`);
      console.log(`| ${name} | ${p50.toFixed(1)} | ${p99.toFixed(1)} | ${beside} | ${answered.join(', ')} |`);
      return p99;
    };
    console.log(
      '| beside | p50 ms | p99 ms | p99 to the quiet one | answers of the flood |\n|---|---|---|---|---|',
    );
    const quiets: number[] = [];
    const measureQuiet = async () => quiets.push(print('nothing', await measure(theatre, clients, options)));
    await measureQuiet();
    await measureQuiet();
    const quiet = (quiets[0] ?? 0) / 2 + (quiets[1] ?? 0) / 2;
    const floods = await floodsOf(theatre, clients[0] ?? '', options);
    const chosen = floods.filter(
      ({ name }) => named.length === 0 || named.some((part) => name.includes(part)),
    );
    for (const one of chosen) {
      const { child } = await startChild<ToFlooder, FromFlooder>('neighbours/flooder');
      child.send({ kind: 'flood', flood: one });
      await sleep(1000);
      const measured = await measure(theatre, clients, options);
      child.send({ kind: 'end' });
      const { statuses } = await child.next('ended');
      print(one.name, { ...measured, statuses }, quiet);
      await child.stop();
    }
    await measureQuiet();
  } finally {
    await theatre.stop();
  }
}

/** Publishes at a fixed rate. @returns how long each answer took since its event was due, ms, ascending */
async function measure(
  { stack, cast }: Theatre,
  clients: string[],
  { duration, rate }: Options,
): Promise<{ times: number[]; statuses: Record<number, number> }> {
  const pool = new Pool(stack.baseUrl, { connections: 64, pipelining: 1 });
  const begin = performance.now();
  const run = Math.round(begin);
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${cast.platformToken}` };
  const publish = async (n: number): Promise<number> => {
    const dueAt = begin + (n * 1000) / rate;
    await sleep(dueAt - performance.now());
    const client_token = clients[n % clients.length];
    const event = {
      event_id: `${run}-${n}`,
      client_token,
      platform_id: `${run}-${n}`,
      segments: ['a', 'b', 'c'],
    };
    const { statusCode, body } = await pool.request({
      method: 'POST',
      path: '/enrichments',
      headers,
      body: JSON.stringify(event),
    });
    await body.dump();
    if (statusCode !== 202) throw new Error(`an event was answered ${statusCode}`);
    return performance.now() - dueAt;
  };
  const times = await Promise.all(Array.from({ length: duration * rate }, (_, n) => publish(n)));
  await pool.close();
  return { times: times.sort((a, b) => a - b), statuses: {} };
}

interface Described {
  parameters: { name: string; in: string; example?: unknown }[];
  requestBody?: { content: Record<string, { examples: Record<string, { value: object }> }> };
}

/** Each call that the service describes, by one account, with the examples of its description; then some of strangers. */
async function floodsOf(
  { stack, cast }: Theatre,
  client: string,
  { connections }: Options,
): Promise<Flood[]> {
  const { baseUrl } = stack;
  const described = await (await request(`${baseUrl}/openapi.json`)).body.json();
  const { paths } = described as { paths: Record<string, Record<string, Described>> };
  const known: Record<string, string> = {
    client_token: client,
    client_id: cast.publisher.clientId,
    client_secret: cast.publisher.clientSecret,
  };
  const calls = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, of]): Flood => {
      const query = new URLSearchParams(
        of.parameters
          .filter((one) => one.in === 'query' && !['cursor', 'wait'].includes(one.name))
          .map(({ name, example }): [string, string] => [name, known[name] ?? String(example)]),
      );
      const [[type = '', media] = []] = Object.entries(of.requestBody?.content ?? {});
      const body = { ...Object.values(media?.examples ?? {})[0]?.value, ...(type.includes('form') && known) };
      return {
        name: `\`${method.toUpperCase()} ${path}\` of one account`,
        baseUrl,
        connections,
        request: {
          method: method.toUpperCase() as Dispatcher.HttpMethod,
          path: `${path.replaceAll(/\{\w+\}/g, 'none')}${query.size > 0 ? `?${query}` : ''}`,
          headers: {
            ...(!path.startsWith('/oauth') && { authorization: `Bearer ${cast.publisherToken}` }),
            ...(type && { 'content-type': type }),
          },
          ...(type && {
            body: type.includes('json')
              ? JSON.stringify(body)
              : String(new URLSearchParams(body as Record<string, string>)),
          }),
        },
      };
    }),
  );
  const stranger = (name: string, of: Flood['request']): Flood => ({
    name,
    baseUrl,
    connections,
    request: of,
  });
  const headers = { authorization: `Bearer ${'x'.repeat(60)}`, 'content-type': 'application/json' };
  return [
    ...calls,
    stranger('a bad token on `GET /clients`', { method: 'GET', path: '/clients', headers }),
    stranger('a bad token on `POST /enrichments`', {
      method: 'POST',
      path: '/enrichments',
      headers,
      body: '{}',
    }),
    ...['/openapi.json', '/docs/swagger-ui-bundle.js', '/docs/errors', '/nowhere'].map((path) =>
      stranger(`strangers on \`${path}\``, { method: 'GET', path }),
    ),
  ];
}
