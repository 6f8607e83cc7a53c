import { account } from '../accounting.js';
import { drain } from '../drain.js';
import type { Arrivals, PublishedEvents } from '../jobs.js';
import { monotonicMs } from '../monotonicMs.js';
import { assetText } from '../requestSource.js';
import { publishEvents } from '../studies/publishEvents.js';
import type { Shape } from './shape.js';
import type { Target } from './target.js';

const pairs = 20;
const postMs = 300;
const secondAfterMs = 150;

/** A newer event of an asset waits for the POST that is under way, and for nothing else. */
export const sameAsset: Shape = {
  name: 'same-asset',
  about: `a second event of an asset while the POST of the first takes ${postMs} ms (the floor would send both at once)`,
  async run(stage) {
    const { receiver } = stage.service.theatre;
    const clientTokens = await stage.service.newClients(pairs);
    const worstMs: number[] = [];
    const wrong = { missing: 0, duplicates: 0 };
    let counted = 0;
    await stage.eachRound(async (label) => {
      receiver.send({
        kind: 'behave',
        behaviour: { latencyMs: postMs, closesConnections: false, refusesOneInTen: false },
      });
      const beginning = publishOfEach(stage.service, clientTokens, label, 'first');
      await new Promise((resolve) => setTimeout(resolve, secondAfterMs));
      const second = await publishOfEach(stage.service, clientTokens, label, 'second');
      const first = await beginning;
      const both = joined(first, second);
      const arrivals = await drain(receiver, both);
      const waits = waitsMs(first, second, arrivals);
      counted += waits.length;
      worstMs.push(Math.max(...waits));
      const { missing, duplicates } = account(both, arrivals);
      wrong.missing += missing;
      wrong.duplicates += duplicates;
    });
    return [
      {
        load: `a second event of the same asset during a POST of ${postMs} ms`,
        what: 'ms from the end of the first POST to the arrival of the second, at most',
        values: worstMs,
        goal: { atMost: 100 },
        beside: `${counted} of ${pairs * worstMs.length} pairs`,
        wrong,
      },
    ];
  },
};

/** One event for each client, all of them at once. */
async function publishOfEach(
  { baseUrls, accessToken }: Target,
  clientTokens: readonly string[],
  platformId: string,
  nth: string,
): Promise<PublishedEvents> {
  const at = monotonicMs();
  const options = { baseUrl: baseUrls[0] ?? '', accessToken, batchSize: 1, lanes: clientTokens.length };
  const notificationIds = await publishEvents(options, clientTokens.length, (i) => ({
    event_id: `${platformId}-${nth}-${i}`,
    client_token: clientTokens[i] ?? '',
    platform_id: platformId,
    segments: [`iab:${nth}`],
  }));
  return {
    notificationIds,
    at: notificationIds.map(() => at),
    down: notificationIds.map(() => false),
    assets: clientTokens.map((clientToken) => assetText(clientToken, platformId)),
  };
}

/**
 * From the end of the first POST to the arrival of the second, of the pairs whose second event was sent during the first
 * POST.
 */
export function waitsMs(
  first: Pick<PublishedEvents, 'notificationIds'>,
  second: Pick<PublishedEvents, 'notificationIds' | 'at'>,
  arrivals: Pick<Arrivals, 'ids' | 'at' | 'endedAt'>,
): number[] {
  const indexes = new Map(arrivals.ids.map((id, i) => [id, i] as const));
  const timesOf = (id: string | undefined) => {
    const i = indexes.get(id ?? '') ?? -1;
    return { at: arrivals.at[i] ?? Number.NaN, endedAt: arrivals.endedAt[i] ?? Number.NaN };
  };
  return first.notificationIds.flatMap((id, i) => {
    const post = timesOf(id);
    const sentAt = second.at[i] ?? Number.NaN;
    if (!(post.at < sentAt && sentAt < post.endedAt)) return [];
    return [timesOf(second.notificationIds[i]).at - post.endedAt];
  });
}

function joined(a: PublishedEvents, b: PublishedEvents): PublishedEvents {
  return {
    notificationIds: [...a.notificationIds, ...b.notificationIds],
    at: [...a.at, ...b.at],
    down: [...a.down, ...b.down],
    assets: [...a.assets, ...b.assets],
  };
}
