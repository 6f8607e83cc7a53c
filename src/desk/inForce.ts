/**
 * What is in force of what an operation sets (`inForce`). A form is filled with it and sends it hidden too: the operation gets what a person has
 * written in its place, and is refused once something else is in force.
 */
import { badParameter, refused } from '../http/apiError.js';

export type Texts = Readonly<Record<string, string>>;

/** Stands before the name of a member whose value its form was filled with. */
export const was = 'was_';

/** Returns the fields of a form that do not have the values with which it was filled. */
export const writtenIn = (sent: Texts): Record<string, string> =>
  Object.fromEntries(
    Object.entries(sent).filter(([name, value]) => !name.startsWith(was) && value !== sent[was + name]),
  );

/** @throws ApiError 409 if what was written over is in force no longer, 400 if nothing was written */
export function requireInForce(present: Texts, sent: Texts, written: Texts): void {
  const set = Object.keys(present).filter((member) => member in written);
  if (set.length === 0) throw badParameter('Nothing was changed in the form');
  for (const member of set)
    if (present[member] !== sent[was + member])
      throw refused(
        `${member}: is ${present[member]} since this page was opened: reload it, then change that`,
      );
}
