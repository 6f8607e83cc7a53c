/** The name under which an operator's commands are recorded. */
import { hostname, userInfo } from 'node:os';
import { isInContainer, operatorName, sudoLogin } from '../config.js';
import { Refused } from './refused.js';

const unnamed = 'unnamed';

/** `NAME (login)` if a name is given by `--as` or OPERATOR_NAME, else the login, which in a container names no person. */
export function whoOf(as: string | undefined): string {
  const name = nameOf(as ?? operatorName());
  if (isInContainer()) return `${name ?? unnamed} (container ${hostname()})`;
  const login = sudoLogin() ?? ownLogin();
  return name === undefined ? login : `${name} (${login})`;
}

export const isUnnamed = (who: string): boolean => who.startsWith(`${unnamed} (`);

function nameOf(given: string | undefined): string | undefined {
  if (given === undefined) return undefined;
  const name = given.trim();
  if (!/^[^\p{Cc}\p{Cf}]{1,64}$/u.test(name) || name === unnamed) {
    throw new Refused(
      'A name (--as, OPERATOR_NAME) has 1 to 64 characters, none of them a control character.',
    );
  }
  return name;
}

/** A user id without an entry in the system's list, as used by orchestrators, has no name. */
function ownLogin(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}
