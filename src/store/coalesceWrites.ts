import type { Socket } from 'node:net';

/**
 * Sends what is written to a socket in one turn of the event loop in one piece: a system call for all commands of
 * a turn instead of one for each, and Redis sees them together, so that it flushes its file once for them.
 * Nothing waits longer than for the requests that this turn has read already.
 */
export function coalesceWrites(socket: Socket): void {
  const write = socket.write;
  let corked = false;
  socket.write = ((...args: Parameters<typeof write>) => {
    if (!corked) {
      corked = true;
      socket.cork();
      setImmediate(() => {
        corked = false;
        socket.uncork();
      });
    }
    return write.apply(socket, args);
  }) as typeof write;
}
