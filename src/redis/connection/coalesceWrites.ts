import type { Socket } from 'node:net';

/** Large enough to share a system call, small enough that Redis begins while the rest is still being built. */
const piece = 4;

/**
 * Sends the commands that one turn of the event loop writes to a socket in pieces of several commands. A piece takes one
 * system call, and Redis flushes its file once for all of its commands. No command waits longer than for the requests
 * that this turn has already read.
 */
export function coalesceWrites(socket: Socket): void {
  const write = socket.write;
  let held = 0;
  const send = () => {
    held = 0;
    socket.uncork();
  };
  socket.write = ((...args: Parameters<typeof write>) => {
    if (held === 0) {
      socket.cork();
      setImmediate(() => {
        if (held > 0) send();
      });
    }
    held++;
    const more = write.apply(socket, args);
    if (held === piece) send();
    return more;
  }) as typeof write;
}
