/** What Temporal shows of the workflow of events: a summary, links, and the search attributes that find it. */
import type { ClaimedEvent } from '../redis/owed/claim.js';
import {
  clientTokenKey,
  eventIdKey,
  httpStatusKey,
  notificationStateKey,
  platformIdKey,
} from './workflowIds.js';

/** The most links in a workflow's details. */
const maxLinks = 10;

interface Shown {
  /** By all of them the workflow is found. */
  events: readonly ClaimedEvent[];
  /** How many are left to deliver. */
  left: number;
  /** The highest status of the delivered ones. */
  status: number | undefined;
}

/** @returns options of its start */
export function showEvents(
  { events, left, status }: Shown,
  { publicUrl, searchAttributeBytes }: { publicUrl?: string; searchAttributeBytes: number },
) {
  const listed = (read: (event: ClaimedEvent) => string) =>
    fitting(new Set(events.map(read)), searchAttributeBytes);
  return {
    staticSummary: buildSummary(events),
    staticDetails: publicUrl && buildLinks(events, publicUrl),
    typedSearchAttributes: [
      { key: clientTokenKey, value: listed((event) => event.clientToken) },
      { key: platformIdKey, value: listed((event) => event.platformId) },
      { key: eventIdKey, value: listed((event) => event.eventId) },
      { key: notificationStateKey, value: left === 0 ? 'delivered' : 'delivering' },
      ...(left > 0 || status === undefined ? [] : [{ key: httpStatusKey, value: status }]),
    ],
  };
}

/** Returns as many values as the server accepts. */
function fitting(values: Set<string>, mostBytes: number): string[] {
  let bytes = 2;
  return [...values].filter((value) => {
    bytes += Buffer.byteLength(JSON.stringify(value)) + 1;
    return bytes <= mostBytes;
  });
}

/** Links to the pages of the notifications in the console, in Markdown. */
function buildLinks(events: readonly ClaimedEvent[], publicUrl: string): string {
  const links = events.slice(0, maxLinks).map(({ clientToken, notificationId }) => {
    const page = `/console/sites/${clientToken}/notifications/${notificationId}`;
    return `<${new URL(page, publicUrl).href}>`;
  });
  return links.join('\n\n');
}

function buildSummary(events: readonly ClaimedEvent[]): string {
  const [only] = events;
  if (events.length === 1 && only !== undefined)
    return `asset-update of ${asCode(only.platformId.slice(0, 80))} to ${asCode(only.clientToken)}`;
  return `${events.length} events of ${new Set(events.map((e) => e.clientToken)).size} clients`;
}

/** Returns a text as it is in Markdown, of which the Temporal UI makes a summary: a name would be a link otherwise. */
function asCode(text: string): string {
  const runs = text.match(/`+/g) ?? [];
  const fence = '`'.repeat(1 + Math.max(0, ...runs.map(({ length }) => length)));
  return runs.length > 0 ? `${fence} ${text} ${fence}` : `${fence}${text}${fence}`;
}
