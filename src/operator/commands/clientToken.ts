import { InvalidArgumentError } from 'commander';
import { type ClientToken, isClientToken, isNoticesClient } from '../../ids.js';

/** Reads a client token as an argument. */
export function parseClientToken(text: string): ClientToken {
  if (!isClientToken(text)) {
    throw new InvalidArgumentError('A client token is 1 to 64 of A-Z a-z 0-9 _ -.');
  }
  return text;
}

/** Reads the token of any client as an argument, also of those that get notices. */
export function parseAnyClient(text: string): ClientToken {
  return isNoticesClient(text) ? text : parseClientToken(text);
}
