/** The name under which an operator's commands are recorded. */
import { hostname, userInfo } from 'node:os';
import { Refused } from './refused.js';

const unnamed = 'unnamed';

/** `NAME (login)` if a name is given by `--as` or OPERATOR_NAME, else the login, which in a container names no person. */
export function whoOf(as: string | undefined): string {
  // SUDO_USER is the login of the person who called `sudo`. The image sets IN_CONTAINER: its login names no person.
  const { OPERATOR_NAME, SUDO_USER, IN_CONTAINER } = process.env;
  const name = nameOf(as ?? (OPERATOR_NAME || undefined));
  if (IN_CONTAINER === 'true') return `${name ?? unnamed} (container ${hostname()})`;
  const login = SUDO_USER || ownLogin();
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
