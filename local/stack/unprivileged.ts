/** The user that PostgreSQL runs as, because it refuses to run as root. */
import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, statSync } from 'node:fs';
import { dirname, sep } from 'node:path';

export interface User {
  name: string;
  uid: number;
  gid: number;
}

/** Returns `postgres`, else `nobody`; undefined if this process is not root and needs no other user. @throws without either */
export function unprivilegedUser(): User | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const user = ['postgres', 'nobody'].map(find).find(Boolean);
  if (!user)
    throw new Error(
      'PostgreSQL refuses to run as root, and this system has neither a user postgres nor nobody',
    );
  return user;
}

/**
 * Lets a user reach a folder through the folders above it: the group of those of ours becomes the user's, which may pass but not list them.
 *
 * @param isOurs says which folders may be changed
 * @throws Error naming a folder above that the user may not pass and that is not ours
 */
export function letThrough(user: User, folder: string, isOurs: (folder: string) => boolean): void {
  for (let above = dirname(folder); above !== sep; above = dirname(above)) {
    const { mode, uid, gid } = statSync(above);
    const mayPass = uid === user.uid ? mode & 0o100 : gid === user.gid ? mode & 0o010 : mode & 0o001;
    if (mayPass) continue;
    if (!isOurs(above)) {
      throw new Error(
        `PostgreSQL runs as ${user.name}, who may not pass through ${above}: chmod o+x it, or set DATA_DIR to another folder`,
      );
    }
    chownSync(above, uid, user.gid);
    chmodSync(above, (mode & 0o7777) | 0o010);
  }
}

function find(name: string): User | undefined {
  try {
    const id = (flag: string) =>
      Number(execFileSync('id', [flag, name], { stdio: ['ignore', 'pipe', 'ignore'] }));
    return { name, uid: id('-u'), gid: id('-g') };
  } catch {
    return undefined;
  }
}
