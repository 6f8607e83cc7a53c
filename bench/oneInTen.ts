/**
 * Whether a notification's id is one of the tenth that a receiver refuses at first. By the id (FNV-1a), as every tenth
 * arrival would be of the same few clients where events go to the clients in turn.
 */
export function isOneInTen(id: string): boolean {
  let hash = 0x811c9dc5;
  for (let i = 0; i < id.length; i++) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193);
  return (hash >>> 0) % 10 === 0;
}
