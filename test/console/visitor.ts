/** What a browser without script is to the console: follows a link, keeps its cookie, sends the forms of pages. */
import assert from 'node:assert/strict';
import { callWithoutEnd } from '../api/rawCaller.js';
import type { Harness } from '../service.js';

export interface Page {
  status: number;
  html: string;
  headers: Headers;
}

export class Visitor {
  cookie = '';

  constructor(readonly url: string) {}

  async get(path: string, headers: Record<string, string> = {}): Promise<Page> {
    return this.#send(path, { headers });
  }

  /** @param headers in the place of what a browser says of where the form stood */
  async post(path: string, fields: Record<string, string>, headers = {}): Promise<Page> {
    return this.#send(path, {
      method: 'POST',
      body: new URLSearchParams(fields),
      headers: { origin: this.url, 'sec-fetch-site': 'same-origin', ...headers },
    });
  }

  /** Sends the form of a page, with its hidden fields. @throws where the page has no form to there */
  async submit(page: Page, action: string, fields: Record<string, string> = {}): Promise<Page> {
    const form = [...page.html.matchAll(/<form[^>]*action="([^"]*)"[^>]*>(.*?)<\/form>/gs)].find(
      ([, to]) => to === action,
    );
    assert.ok(form, `a form to ${action}`);
    const hidden = [...(form[2] ?? '').matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)">/g)];
    const given = Object.fromEntries(hidden.map(([, name = '', value = '']) => [name, value]));
    return this.post(action, { ...given, ...fields });
  }

  /** Sends a form but for its last byte, and returns what sends that byte and answers with all that came back. */
  postWithoutEnd(path: string, fields: Record<string, string>) {
    const type = 'application/x-www-form-urlencoded';
    const headers = { origin: this.url, cookie: this.cookie, 'content-type': type };
    return callWithoutEnd(this.url + path, headers, String(new URLSearchParams(fields)));
  }

  get secret(): string {
    return this.cookie.split('=')[1] ?? '';
  }

  /** Opens a link, and answers what the opening itself was answered. */
  async open(link: string): Promise<Page> {
    const { origin, pathname, hash } = new URL(link);
    assert.deepEqual([origin, pathname], [this.url, '/console/open']);
    return this.post('/console/open', { link: hash.slice(1) });
  }

  async #send(path: string, init: RequestInit): Promise<Page> {
    const headers = new Headers(init.headers);
    if (this.cookie !== '') headers.set('cookie', this.cookie);
    const answer = await fetch(this.url + path, { ...init, headers, redirect: 'manual' });
    const [set] = answer.headers.getSetCookie();
    if (set !== undefined) this.cookie = set.split(';')[0] ?? '';
    return { status: answer.status, html: await answer.text(), headers: answer.headers };
  }
}

export const formTokenIn = (html: string): string =>
  /name="form_token" value="([^"]+)"/.exec(html)?.[1] ?? '';

export async function newLink(h: Pick<Harness, 'url'>, token: string, query = ''): Promise<string> {
  const answer = await fetch(`${h.url}/console_sessions${query}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
  });
  assert.equal(answer.status, 200);
  return ((await answer.json()) as { url: string }).url;
}

/** A browser with a session of the token's account. */
export async function signedIn(h: Pick<Harness, 'url'>, token: string, query = ''): Promise<Visitor> {
  const visitor = new Visitor(h.url);
  assert.equal((await visitor.open(await newLink(h, token, query))).status, 303);
  return visitor;
}
