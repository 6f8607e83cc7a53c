/** `npm run bench -- neighbours`: the time of POST /enrichments beside a flood of each call of the API, by one account or by strangers. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { type Dispatcher, request } from 'undici';
import { startChild } from './child.js';
import type { Flood, FromFlooder, ToFlooder } from './flooder.js';
import { perSecond } from './loads.js';
import { type Latency, measure } from './measure.js';
import { startTheatre, type Theatre } from './theatre.js';

interface Options {
  duration: number;
  rate: number;
  connections: number;
}

export const neighboursCommand = (positive: (text: string) => number) =>
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
    const clients = await theatre.service.newClients(20);
    const print = (name: string, { p50, p99 }: Latency, quietP99?: number, statuses: object = {}) => {
      const beside = quietP99 === undefined ? '' : (p99 / quietP99).toFixed(1);
      const answered = Object.entries(statuses).map(([status, count]) => `${status}: ${count}`);
      console.log(`| ${name} | ${p50.toFixed(1)} | ${p99.toFixed(1)} | ${beside} | ${answered.join(', ')} |`);
      return p99;
    };
    const answers = () => answersAtRate(theatre, clients, options);
    await answers();
    console.log(
      '| beside | p50 ms | p99 ms | p99 to the quiet one | answers of the flood |\n|---|---|---|---|---|',
    );
    const quiet = (print('nothing', await answers()) + print('nothing', await answers())) / 2;
    const floods = await floodsOf(theatre, clients[0] ?? '', options);
    for (const flood of floods.filter(({ name }) => named.every((part) => name.includes(part)))) {
      const { child } = await startChild<ToFlooder, FromFlooder>('flooder');
      child.send({ kind: 'flood', flood });
      await sleep(1000);
      const measured = await answers();
      child.send({ kind: 'end' });
      print(flood.name, measured, quiet, (await child.next('ended')).statuses);
      await child.stop();
    }
    print('nothing', await answers());
  } finally {
    await theatre.stop();
  }
}

/** Publishes at a fixed rate. Returns how long each answer took since its event was due. @throws if an event is refused */
async function answersAtRate(
  { service, publisher, receiver }: Theatre,
  clientTokens: string[],
  { duration, rate }: Options,
): Promise<Latency> {
  const { answer, givenUp, oddity } = await measure(
    {
      baseUrls: service.baseUrls,
      accessToken: service.platformToken,
      pace: perSecond(rate),
      warmUpMs: 0,
      durationMs: duration * 1000,
      clientTokens,
      batchSize: 1,
      eventsPerTurn: 1,
      isKnown: false,
      round: `beside-${Date.now()}`,
    },
    publisher,
    receiver,
    {},
  );
  if (givenUp > 0) throw new Error(`an event was refused: ${oddity}`);
  return answer;
}

interface Described {
  parameters: { name: string; in: string; example?: unknown }[];
  requestBody?: { content: Record<string, { examples: Record<string, { value: object }> }> };
}

/** Each call that the service describes, by one account, with the examples of its description; then some of strangers. */
async function floodsOf(
  { stack, account }: Theatre,
  client: string,
  { connections }: Options,
): Promise<Flood[]> {
  const { baseUrl } = stack;
  const described = await (await request(`${baseUrl}/openapi.json`)).body.json();
  const { paths } = described as { paths: Record<string, Record<string, Described>> };
  const known: Record<string, string> = {
    client_token: client,
    client_id: account.clientId,
    client_secret: account.clientSecret,
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
            ...(!path.startsWith('/oauth') && { authorization: `Bearer ${account.accessToken}` }),
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
