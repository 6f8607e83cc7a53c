import { badParameter } from '../../apiError.js';

export const defaultLimit = 50;
export const maxLimit = 200;

/** Returns the size of a page of a list, 50 by default. @throws ApiError 400 */
export function readLimit(given: string | undefined): number {
  const limit = given === undefined ? defaultLimit : Number(given);
  if (!/^\d{1,3}$/.test(given ?? '1') || limit < 1 || limit > maxLimit) {
    throw badParameter(`limit must be a number from 1 to ${maxLimit}`);
  }
  return limit;
}

export const unknownCursor = () => badParameter('cursor is not a next_cursor of this call');
