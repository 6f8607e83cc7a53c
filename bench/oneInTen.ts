/**
 * Returns whether the receiver refuses this notification's first POST: one in ten, by a hash of the id (FNV-1a). Every tenth
 * arrival would belong to the same few clients, because events go to the clients in turn.
 */
export function isOneInTen(id: string): boolean {
  let hash = 0x811c9dc5;
  for (let i = 0; i < id.length; i++) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193);
  return (hash >>> 0) % 10 === 0;
}
