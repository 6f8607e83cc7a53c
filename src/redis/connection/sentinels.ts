/** Opens a Redis whose address Sentinels name. */
import { isIP } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import { Redis, type RedisOptions, type SentinelConnectionOptions, SentinelConnector } from 'ioredis';
import type { RedisAddress } from '../../addresses.js';

/** Returns the option by which a TLS handshake names a host. */
export const naming = (host: string) => (isIP(host) === 0 ? { servername: host } : {});

/** Names each Sentinel in its handshake, and keeps why the last could not be reached: ioredis does neither. */
class Sentinels extends SentinelConnector {
  #lastError: Error | undefined;

  constructor(options: unknown) {
    super(options as SentinelConnectionOptions);
    const own = this as unknown as { connectToSentinel(to: { host: string }, options?: RedisOptions): Redis };
    const connect = own.connectToSentinel.bind(this);
    own.connectToSentinel = (to, more) => {
      const { sentinelTLS: tls } = this.options;
      const client = connect(to, { ...more, ...(tls && { tls: { ...tls, ...naming(to.host) } }) });
      return client.on('error', (err) => {
        this.#lastError = err;
      });
    };
  }

  override connect(tell: Parameters<SentinelConnector['connect']>[0]) {
    return super.connect((type, err) => tell(type, Object.assign(err, { cause: this.#lastError })));
  }
}

export function openSentinels(
  { nodes, sentinel, name, db, tls, username, password }: RedisAddress & { kind: 'sentinel' },
  options: RedisOptions & { retryStrategy(times: number): number },
  own?: ConnectionOptions,
): Redis {
  return new Redis({
    ...options,
    Connector: Sentinels,
    sentinels: nodes,
    name,
    db,
    username,
    password,
    sentinelUsername: sentinel.username,
    sentinelPassword: sentinel.password,
    ...(tls && {
      tls: { ...own },
      sentinelTLS: { ...own },
      enableTLSForSentinelMode: true,
      natMap: nameAnnounced,
    }),
    sentinelRetryStrategy: options.retryStrategy,
    sentinelCommandTimeout: 1000,
    // Sentinels announce a new primary. The old one may be silent and keep its connections.
    failoverDetector: true,
  });
}

/** Names the host of a server that a Sentinel has announced, `host:port`. */
function nameAnnounced(announced: string) {
  const [, host = '', port] = /^(.*):(\d+)$/.exec(announced) ?? [];
  return { host, port: Number(port), ...naming(host) };
}
