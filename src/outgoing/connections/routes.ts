import { createSocket } from 'node:dgram';
import { isIPv6 } from 'node:net';

/** Returns whether the kernel has a route, and an address of this host, for a connection to this IP address. */
export type HasRoute = (address: string) => Promise<boolean>;

const noRouteCodes = new Set(['ENETUNREACH', 'EHOSTUNREACH', 'EADDRNOTAVAIL', 'EAFNOSUPPORT', 'ENETDOWN']);

/**
 * Asks the kernel by connecting a datagram socket, which looks up the route and sends nothing. Any other
 * error counts as a route, so that a receiver is not excused by mistake.
 */
export const hasRoute: HasRoute = (address) =>
  new Promise((resolve) => {
    const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
    let ended = false;
    const end = (error?: NodeJS.ErrnoException): void => {
      if (!ended) socket.close();
      ended = true;
      resolve(!noRouteCodes.has(error?.code ?? ''));
    };
    socket.on('error', end);
    socket.connect(anyPort, address, end as () => void);
  });

const anyPort = 443;
