import type { Connection } from '@temporalio/client';
import { ConfigError } from '../config.js';
import type { Logger } from '../log.js';
import { except } from '../promises.js';
import { grpcCodeOf } from './refusal.js';

/** The types' names by their numbers in `temporal.api.enums.v1.IndexedValueType`. */
const typeNames = { 2: 'Keyword', 3: 'Int', 7: 'KeywordList' };

/** The names of src/temporal/workflowIds.ts with the numbers of their types. */
export const searchAttributeTypes = {
  ClientToken: 7,
  PlatformId: 7,
  EventId: 7,
  NotificationState: 2,
  HttpStatus: 3,
} as const;

type Servers = Pick<Connection, 'operatorService' | 'workflowService'>;
type Name = keyof typeof searchAttributeTypes;
const names = Object.keys(searchAttributeTypes) as Name[];

/** gRPC codes */
const invalidArgument = 3;
/** The server, or this caller's role, has no operator service (Temporal Cloud): denied, unimplemented. */
const noOperator = new Set<number | undefined>([7, 12]);
const unlessDenied = except(
  (err) => noOperator.has(grpcCodeOf(err)),
  () => 'denied' as const,
);

/**
 * Makes sure that the namespace has the service's search attributes: Temporal refuses a start that sets an unknown one.
 * If the server does not allow listing them, queries show whether they exist.
 *
 * @throws ConfigError naming the attributes that are missing or of another type, and cannot be added from here
 */
export async function ensureSearchAttributes(connection: Servers, namespace: string, log: Logger) {
  const { amiss, found } = await findAmiss(connection, namespace);
  if (amiss.length === 0) return;
  if (found === undefined || amiss.some((name) => name in found)) throw cannotAdd(namespace, amiss);
  const searchAttributes = Object.fromEntries(amiss.map((name) => [name, searchAttributeTypes[name]]));
  const adding = connection.operatorService.addSearchAttributes({ namespace, searchAttributes });
  const others = Object.keys(found).filter(
    (name) => found[name] === searchAttributeTypes.ClientToken && !(name in searchAttributeTypes),
  );
  const added = await adding.catch(unlessDenied).catch((err: unknown) => {
    if (others.length === 0) throw err;
    throw new ConfigError(
      `the namespace ${namespace} has no room for the search attributes ${amiss.join(', ')}: SQL visibility has three ` +
        `KeywordList attributes for each namespace, the service needs all three, and others have ${others.join(', ')}.\n` +
        'Give the service a namespace of its own (TEMPORAL_NAMESPACE), or use Elasticsearch for visibility.',
    );
  });
  if (added === 'denied') throw cannotAdd(namespace, amiss);
  log.info({ added: amiss }, 'the namespace lacked search attributes: they are added');
}

/**
 * Finds the search attributes that the namespace lacks, or has with another type.
 * @returns `found`: all that it has, with their types; undefined if the server does not list them
 */
export async function findAmiss(connection: Servers, namespace: string) {
  const listed = await connection.operatorService.listSearchAttributes({ namespace }).catch(unlessDenied);
  if (listed === 'denied') return { amiss: await findMissingByQuery(connection, namespace) };
  const found = listed.customAttributes;
  return { amiss: names.filter((name) => found[name] !== searchAttributeTypes[name]), found };
}

/** Finds missing attributes by queries: one with a missing attribute, or with another type, is invalid. All are asked for at once first. */
async function findMissingByQuery(connection: Servers, namespace: string): Promise<Name[]> {
  const isInvalid = (err: unknown) => grpcCodeOf(err) === invalidArgument;
  const isValid = async (...asked: Name[]): Promise<boolean> => {
    const unlikely = (name: Name) => (typeNames[searchAttributeTypes[name]] === 'Int' ? '0' : "'-'");
    const query = asked.map((name) => `${name} = ${unlikely(name)}`).join(' AND ');
    const asking = connection.workflowService.countWorkflowExecutions({ namespace, query });
    return asking.then(() => true).catch(except(isInvalid, () => false));
  };
  const missing: Name[] = [];
  if (await isValid(...names)) return missing;
  for (const name of names) if (!(await isValid(name))) missing.push(name);
  return missing;
}

function cannotAdd(namespace: string, missing: Name[]): ConfigError {
  const { lacks, cloud, own } = explainAmiss(namespace, missing);
  return new ConfigError(
    `${lacks}\nThe service may not add them to this server. Add them, then start again:\n  ${cloud}\n  ${own}`,
  );
}

/** Says what is amiss, and how it is added at Temporal Cloud and at an own server. */
export function explainAmiss(namespace: string, missing: Name[]) {
  const typed = missing.map((name) => [name, typeNames[searchAttributeTypes[name]]]);
  const list = typed.map(([name, type]) => `${name} (${type})`).join(', ');
  const cloud = typed.map(([name, type]) => ` --search-attribute "${name}=${type}"`).join('');
  const own = typed.map(([name, type]) => ` --name ${name} --type ${type}`).join('');
  return {
    lacks: `the namespace ${namespace} lacks these search attributes, or has them with another type: ${list}`,
    cloud: `Temporal Cloud:  tcld namespace search-attributes add --namespace ${namespace}${cloud}`,
    own: `your own server: temporal operator search-attribute create --namespace ${namespace}${own}`,
  };
}
