import type { Answer, Caller, ServiceOptions } from './call.js';

/** An access token with one scope: minted when needed, and shared by all callers. */
export class AccessToken {
  #held: { token: string; renewAtMs: number } | undefined;
  #minting: Promise<string | Answer> | undefined;

  constructor(
    private readonly credentials: Pick<ServiceOptions, 'clientId' | 'clientSecret'>,
    private readonly caller: Caller,
    private readonly scope: 'enrichments' | 'push_notifications',
  ) {}

  /** Makes a call with the token; if the service refuses the token, once more with a new one. */
  async call(make: (authorization: string) => Promise<Answer>): Promise<Answer> {
    for (let isRenewed = false; ; isRenewed = true) {
      const token = await this.#get();
      if (typeof token !== 'string') return token;
      const answer = await make(`Bearer ${token}`);
      if (answer.status !== 401 || isRenewed) return answer;
      this.#forget(token);
    }
  }

  /** @returns the token, or the answer of the service that gave none */
  async #get(): Promise<string | Answer> {
    if (this.#held && Date.now() < this.#held.renewAtMs) return this.#held.token;
    this.#minting ??= this.#mint().finally(() => {
      this.#minting = undefined;
    });
    return await this.#minting;
  }

  /** Where the service takes this token no more. */
  #forget(token: string): void {
    if (this.#held?.token === token) this.#held = undefined;
  }

  async #mint(): Promise<string | Answer> {
    const { clientId: client_id, clientSecret: client_secret } = this.credentials;
    const fields = { grant_type: 'none', client_id, client_secret, scope: this.scope };
    const body = new URLSearchParams(fields);
    const answer = await this.caller.call('POST', '/oauth/access_token', 'access_token', { body });
    const { access_token: token, expires_in: seconds } = answer.body;
    if (answer.status !== 200 || typeof token !== 'string') return answer;
    this.#held = { token, renewAtMs: Date.now() + Number(seconds) * 900 };
    return token;
  }
}
