import { setTimeout as sleep } from 'node:timers/promises';
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
/** Pause between two pairs, so that the first POST begins immediately. */
const apartMs = 100;

/** A newer event of an asset waits only for the POST under way. */
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
      const sent = await Promise.all(
        clientTokens.map((clientToken, i) => sendPair(stage.service, clientToken, label, i * apartMs)),
      );
      const first = joined(sent.map((pair) => pair.first));
      const second = joined(sent.map((pair) => pair.second));
      const both = joined([first, second]);
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

/** Sends two events of an asset; the second does not wait for the answer to the first. */
async function sendPair(target: Target, clientToken: string, platformId: string, afterMs: number) {
  await sleep(afterMs);
  const first = publishOne(target, clientToken, platformId, 'first');
  await sleep(secondAfterMs);
  const second = await publishOne(target, clientToken, platformId, 'second');
  return { first: await first, second };
}

async function publishOne(
  { baseUrls, accessToken }: Target,
  clientToken: string,
  platformId: string,
  nth: string,
): Promise<PublishedEvents> {
  const at = monotonicMs();
  const notificationIds = await publishEvents(
    { baseUrl: baseUrls[0] ?? '', accessToken, batchSize: 1, lanes: 1 },
    1,
    () => ({
      event_id: `${platformId}-${nth}`,
      client_token: clientToken,
      platform_id: platformId,
      segments: [`iab:${nth}`],
    }),
  );
  return { notificationIds, at: [at], down: [false], assets: [assetText(clientToken, platformId)] };
}

/**
 * Returns the times from the end of the first POST to the arrival of the second, for pairs whose second event was sent
 * during the first POST.
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

function joined(parts: readonly PublishedEvents[]): PublishedEvents {
  return {
    notificationIds: parts.flatMap((part) => part.notificationIds),
    at: parts.flatMap((part) => part.at),
    down: parts.flatMap((part) => part.down),
    assets: parts.flatMap((part) => part.assets),
  };
}
