interface NoticesSettings {
  NOTICES_URL?: string | undefined;
  NOTICES_SIGNING_SECRET?: string[] | undefined;
  ALLOW_HTTP_TARGETS: boolean;
}

/** Returns what is wrong with the settings of the platform's notices, without their values. */
export function wrongNotices(given: NoticesSettings): string[] {
  const { NOTICES_URL: url, NOTICES_SIGNING_SECRET: secret, ALLOW_HTTP_TARGETS: mayBeHttp } = given;
  if ((url === undefined) !== (secret === undefined)) {
    return ['NOTICES_URL, NOTICES_SIGNING_SECRET: each requires the other'];
  }
  if (url === undefined) return [];
  const { protocol, username, password, hash } = new URL(url);
  if (protocol === 'http:' && !mayBeHttp) return ['NOTICES_URL: must be https'];
  return username + password + hash === '' ? [] : ['NOTICES_URL: must have no user:password and no fragment'];
}
