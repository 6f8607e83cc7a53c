import type { Connection } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';

/** Numbers of `temporal.api.enums.v1.IndexedValueType`. */
const keyword = 2;
const int = 3;
const keywordList = 7;

/** The names of workflows/searchAttributes.ts with the server's types. */
export const searchAttributeTypes = {
  ClientToken: keywordList,
  PlatformId: keywordList,
  EventId: keywordList,
  NotificationState: keyword,
  HttpStatus: int,
};

/** Makes sure that the namespace has the search attributes by which operators find a workflow. */
export async function ensureSearchAttributes(
  connection: Connection | NativeConnection,
  namespace: string,
): Promise<void> {
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  const missing = Object.entries(searchAttributeTypes).filter(([name]) => !(name in customAttributes));
  if (missing.length === 0) return;
  await connection.operatorService.addSearchAttributes({
    namespace,
    searchAttributes: Object.fromEntries(missing),
  });
}
