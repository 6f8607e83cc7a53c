import type { Connection } from '@temporalio/client';
import { ConfigError } from '../config.js';
import type { Logger } from '../log.js';

/** Numbers of `temporal.api.enums.v1.IndexedValueType`. */
const keyword = 2;
const int = 3;
const keywordList = 7;
const typeNames: Record<number, string> = {
  [keyword]: 'Keyword',
  [int]: 'Int',
  [keywordList]: 'KeywordList',
};

/** The names of src/temporal/workflowIds.ts with the server's types. */
export const searchAttributeTypes = {
  ClientToken: keywordList,
  PlatformId: keywordList,
  EventId: keywordList,
  NotificationState: keyword,
  HttpStatus: int,
};

type Servers = Pick<Connection, 'operatorService' | 'workflowService'>;
type Name = keyof typeof searchAttributeTypes;
const names = Object.keys(searchAttributeTypes) as Name[];

/** gRPC codes */
const invalidArgument = 3;
/** The server, or this caller's role, has no operator service (Temporal Cloud): denied, unimplemented. */
const noOperator = [7, 12];

/**
 * Makes sure that the namespace has the service's search attributes: Temporal refuses a start that sets an unknown one.
 * If the server does not allow listing them, a query for each shows whether it exists.
 *
 * @throws ConfigError naming the attributes that are missing or of another type, and cannot be added from here
 */
export async function ensureSearchAttributes(
  connection: Servers,
  namespace: string,
  log: Logger,
): Promise<void> {
  const { missing, others, isListed } = await searchAttributesAmiss(connection, namespace);
  if (!isListed && missing.length === 0) {
    log.info(
      'the search attributes exist: the server does not list them, but answers queries that name them',
    );
  }
  if (others.length > 0 || (!isListed && missing.length > 0)) {
    throw cannotAdd(namespace, [...missing, ...others]);
  }
  if (missing.length === 0) return;
  const searchAttributes = Object.fromEntries(missing.map((name) => [name, searchAttributeTypes[name]]));
  const added = await unlessDenied(
    connection.operatorService.addSearchAttributes({ namespace, searchAttributes }),
  );
  if (added === 'denied') throw cannotAdd(namespace, missing);
}

/**
 * Returns which search attributes the namespace lacks, and which it has with another type. If the server does not allow
 * listing them (`isListed` is false), those of another type are among the missing ones.
 */
async function searchAttributesAmiss(
  connection: Servers,
  namespace: string,
): Promise<{ missing: Name[]; others: Name[]; isListed: boolean }> {
  const listed = await unlessDenied(connection.operatorService.listSearchAttributes({ namespace }));
  if (listed === 'denied') {
    return { missing: await missingByQuery(connection, namespace), others: [], isListed: false };
  }
  const { customAttributes } = listed;
  return {
    missing: names.filter((name) => !(name in customAttributes)),
    others: names.filter(
      (name) => (customAttributes[name] ?? searchAttributeTypes[name]) !== searchAttributeTypes[name],
    ),
    isListed: true,
  };
}

async function unlessDenied<T>(call: Promise<T>): Promise<T | 'denied'> {
  try {
    return await call;
  } catch (err) {
    if (noOperator.includes(codeOf(err))) return 'denied';
    throw err;
  }
}

/** Finds missing attributes by a query for each: a query with a missing attribute, or with another type, is invalid. */
async function missingByQuery(connection: Servers, namespace: string): Promise<Name[]> {
  const missing: Name[] = [];
  for (const name of names) {
    const value = searchAttributeTypes[name] === int ? '0' : "'-'";
    try {
      const query = `${name} = ${value}`;
      await connection.workflowService.countWorkflowExecutions({ namespace, query });
    } catch (err) {
      if (codeOf(err) !== invalidArgument) throw err;
      missing.push(name);
    }
  }
  return missing;
}

function codeOf(err: unknown): number {
  return Number((err as { code?: unknown }).code);
}

function cannotAdd(namespace: string, missing: Name[]): ConfigError {
  const typed = missing.map((name) => [name, typeNames[searchAttributeTypes[name]]] as const);
  const list = typed.map(([name, type]) => `${name} (${type})`).join(', ');
  const cloud = typed.map(([name, type]) => ` --search-attribute "${name}=${type}"`).join('');
  const own = typed.map(([name, type]) => ` --name ${name} --type ${type}`).join('');
  return new ConfigError(
    `the namespace ${namespace} lacks these search attributes, or has them with another type: ${list}\n` +
      'The service may not add them to this server. Add them, then start again:\n' +
      `  Temporal Cloud:  tcld namespace search-attributes add --namespace ${namespace}${cloud}\n` +
      `  your own server: temporal operator search-attribute create --namespace ${namespace}${own}`,
  );
}
