/**
 * Runs writes whose answer promises something on connections that confirm them. The writes of a turn of the event loop go to a
 * server together. WAITAOF follows on the same connection (Redis 7.2+, Valkey): so who confirms a write is who ran it. WAITAOF
 * holds its connection, so each server has two, in turn.
 */
import type { Command, Redis } from 'ioredis';
import { DurableServer, type DurableSettings, keyOf, unconfirmed, type Write } from './durableServer.js';
import type { Nodes } from './nodes.js';
import { type CommandObserver, observeCommand, type SentCommand } from './observeCommands.js';
import { spreadPipeline } from './pipeline.js';
import { ignore, isRedirected, RedisUnavailable } from './unavailable.js';

interface Settings extends DurableSettings {
  redis: Redis;
  nodes: Nodes;
  /** A write that is not confirmed within this time fails. */
  withinMs: number;
  observe: CommandObserver | undefined;
}

export interface DurableConnection {
  /** Takes the commands of one piece of work. */
  redis: Redis;
  /** Resolves once those commands are safe. @throws RedisUnavailable if that is not confirmed in time */
  safe(): Promise<void>;
}

/** The pause before a command is sent again whose slot has moved or is being moved. */
const redirectedMs = 30;

/** Returns a function that begins a piece of work. */
export function durableConnections(settings: Settings): () => DurableConnection {
  const { redis, nodes, trusted, withinMs, observe } = settings;
  if (trusted) return () => ({ redis, safe: () => Promise.resolve() });
  const servers = new WeakMap<Redis, DurableServer>();

  function route(write: Write): void {
    write.isSafe = false;
    const node = nodes.ownerOf(keyOf(write.command));
    if (node?.status !== 'ready') {
      write.end(new RedisUnavailable('Connection is closed: the server of a write is unavailable'));
      return;
    }
    let server = servers.get(node);
    if (server === undefined) {
      server = new DurableServer(node, settings);
      servers.set(node, server);
    }
    server.push(write);
  }

  function begin(command: Command): Promise<void> {
    if (observe !== undefined) observeCommand(command, observe);
    const sent = command as unknown as SentCommand;
    const { resolve, reject } = sent;
    const safe = new Promise<void>((confirm, fail) => {
      const write: Write = {
        command,
        isSafe: false,
        isAnswered: false,
        hasEnded: false,
        end(err) {
          if (write.hasEnded) return;
          write.hasEnded = true;
          clearTimeout(timer);
          if (err === undefined) confirm();
          else if (write.isAnswered) fail(err);
          else {
            reject.call(command, err);
            confirm();
          }
        },
      };
      const timer = setTimeout(() => write.end(unconfirmed()), withinMs);
      sent.resolve = (value) => {
        write.isAnswered = true;
        resolve.call(command, value);
        if (write.isSafe) write.end();
      };
      sent.reject = (err) => {
        if (write.hasEnded || !isRedirected(err)) return write.end(err);
        nodes.refresh();
        setTimeout(() => write.hasEnded || route(write), redirectedMs);
      };
      route(write);
    });
    safe.catch(ignore);
    return safe;
  }

  return () => {
    const safe: Promise<void>[] = [];
    const own = Object.create(redis) as Redis;
    own.sendCommand = (command) => {
      safe.push(begin(command as Command));
      return (command as Command).promise;
    };
    own.pipeline = () => spreadPipeline(own);
    return { redis: own, safe: async () => void (await Promise.all(safe)) };
  };
}
