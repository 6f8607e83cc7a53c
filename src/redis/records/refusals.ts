/** Errors of changes to an account's or a client's record. */
export class UnknownAccount extends Error {
  override name = 'UnknownAccount';
}

export class ClientTokenTaken extends Error {
  override name = 'ClientTokenTaken';
}

export class UnknownClient extends Error {
  override name = 'UnknownClient';
}
