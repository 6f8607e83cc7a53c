/** Finds out whether anything outside is reached: one receiver's silence may be the receiver's, or that of our own way out. */
import { once } from 'node:events';
import { connect, isIPv4 } from 'node:net';
import ipaddr from 'ipaddr.js';
import { withTimeout } from '../promises.js';
import { codeOf } from './failures.js';
import { keepNewest } from './lessons.js';

/** Receivers that answered within this time should answer. */
export const answeredWithinMs = 86_400_000;
const maxKept = 32;
/** Clients that are kept of one network. */
const maxClients = 4;
/** A single other network may be silent by chance. */
export const leastTried = 2;
/** One account's servers may be down together. */
export const leastAccounts = 2;
const answersWithinMs = 1000;
const trustedMs = 5000;
const accountWithinMs = 300;

interface Place {
  address: string;
  port: number;
  /** When it answered last (`performance.now()`). */
  atMs: number;
  /** Whose receivers have answered here, the newest last. */
  clients: Set<string>;
  tried?: { untilMs: number; answers: Promise<boolean> };
}

/** The receivers that answered this process, one for each network. */
export class Reach {
  /** The newest last. */
  readonly #places = new Map<string, Place>();

  /** @param accountOf returns the account of a client; by default each client is one */
  constructor(readonly accountOf = async (client: string): Promise<string> => client) {}

  /** A client's receiver has answered. */
  answered(address: string, port: number, client: string): void {
    const network = networkOf(address);
    const clients = this.#places.get(network)?.clients ?? new Set();
    clients.delete(client);
    keepNewest(clients.add(client), maxClients);
    this.#places.delete(network);
    keepNewest(this.#places.set(network, { address, port, clients, atMs: performance.now() }), maxKept);
  }

  /**
   * Returns whether all others are as silent as this client's receiver, which has been since `sinceMs`: nobody has answered meanwhile, none
   * of the other networks that answered today, at least two, takes a bare connection, and all of them are of several accounts: as far as
   * that is found out within a second. Takes two seconds and a half at most.
   */
  async isLost(address: string, client: string, sinceMs: number): Promise<boolean> {
    const nowMs = performance.now();
    const places = [...this.#places].filter(([, { atMs }]) => nowMs - atMs < answeredWithinMs);
    if (places.some(([, { atMs }]) => atMs > sinceMs)) return false;
    const others = places.filter(([network]) => network !== networkOf(address));
    if (others.length < leastTried) return false;
    const answers = await Promise.all(others.map(([, place]) => askOnce(place, nowMs)));
    if (answers.includes(true)) return false;
    return await this.#areOfSeveral([client, ...others.flatMap(([, { clients }]) => [...clients])]);
  }

  async #areOfSeveral(clients: readonly string[]): Promise<boolean> {
    const accounts = new Set<string>();
    const untilMs = performance.now() + answersWithinMs;
    for (const client of new Set(clients)) {
      if (performance.now() > untilMs) break;
      // The store may be behind the same way out.
      accounts.add(
        await withTimeout(this.accountOf(client), accountWithinMs, () => client).catch(() => client),
      );
      if (accounts.size === leastAccounts) return true;
    }
    return false;
  }
}

function askOnce(place: Place, nowMs: number): Promise<boolean> {
  if (place.tried === undefined || nowMs > place.tried.untilMs)
    place.tried = { untilMs: nowMs + trustedMs, answers: answersAt(place.address, place.port) };
  return place.tried.answers;
}

/** Returns the network of one site: an IPv4 /24, an IPv6 /48. */
export function networkOf(address: string): string {
  if (isIPv4(address)) return address.slice(0, address.lastIndexOf('.'));
  const bytes = ipaddr.process(address).toByteArray();
  return bytes.slice(0, bytes.length === 4 ? 3 : 6).join('.');
}

/** Returns whether somebody answers a bare connection within a second: who refuses or resets it is reached. */
export async function answersAt(address: string, port: number): Promise<boolean> {
  const socket = connect({ host: address, port });
  try {
    await once(socket, 'connect', { signal: AbortSignal.timeout(answersWithinMs) });
    return true;
  } catch (error) {
    return ['ECONNREFUSED', 'ECONNRESET'].includes(codeOf(error));
  } finally {
    socket.on('error', () => undefined).destroy();
  }
}
