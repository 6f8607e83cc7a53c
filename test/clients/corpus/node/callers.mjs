// node callers.mjs <client>: what the client is answered, as one line of JSON
import http from 'node:http';
import axios from 'axios';
import got from 'got';
import nodeFetch from 'node-fetch';
import nodeOauth from 'oauth';
import * as oauth4webapi from 'oauth4webapi';
import * as openid from 'openid-client';
import { ClientCredentials } from 'simple-oauth2';
import superagent from 'superagent';

const { API, CLIENT_ID, CLIENT_SECRET, CLIENT_TOKEN } = process.env;
const tokens = `${API}/oauth/access_token`;
const scope = 'push_notifications enrichments';
const server = { issuer: API, token_endpoint: tokens };

const posts = {
  async fetch(url, headers, body) {
    const answer = await fetch(url, { method: 'POST', headers, body });
    return [answer.status, await answer.text()];
  },
  async 'node-fetch'(url, headers, body) {
    const answer = await nodeFetch(url, { method: 'POST', headers, body });
    return [answer.status, await answer.text()];
  },
  async axios(url, headers, body) {
    const { status, data } = await axios.post(url, body, {
      headers,
      responseType: 'text',
      transformResponse: (text) => text,
      validateStatus: () => true,
    });
    return [status, data];
  },
  async got(url, headers, body) {
    const { statusCode, body: text } = await got.post(url, { headers, body, throwHttpErrors: false });
    return [statusCode, text];
  },
  async superagent(url, headers, body) {
    const { status, text } = await superagent
      .post(url)
      .set(headers)
      .ok(() => true)
      .send(body);
    return [status, text];
  },
  'node:http': (url, headers, body) =>
    new Promise((resolve, reject) => {
      const request = http.request(url, { method: 'POST', headers }, async (answer) => {
        let text = '';
        for await (const part of answer.setEncoding('utf8')) text += part;
        resolve([answer.statusCode, text]);
      });
      request.on('error', reject).end(body);
    }),
};

const openidClient = async (auth) => {
  const config = new openid.Configuration(server, CLIENT_ID, CLIENT_SECRET, auth);
  openid.allowInsecureRequests(config);
  return openid.genericGrantRequest(config, 'none', { scope });
};
const oauth4web = async (auth) => {
  const client = { client_id: CLIENT_ID };
  const insecure = { [oauth4webapi.allowInsecureRequests]: true };
  const answer = await oauth4webapi.genericTokenEndpointRequest(
    server,
    client,
    auth,
    'none',
    { scope },
    insecure,
  );
  return oauth4webapi.processGenericTokenEndpointResponse(server, client, answer);
};
const simple = async (authorizationMethod) => {
  const client = { id: CLIENT_ID, secret: CLIENT_SECRET };
  const auth = { tokenHost: API, tokenPath: '/oauth/access_token' };
  const credentials = new ClientCredentials({ client, auth, options: { authorizationMethod } });
  return (await credentials.getToken({ grant_type: 'none', scope })).token;
};
const oauthOfNode = () =>
  new Promise((resolve, reject) => {
    const client = new nodeOauth.OAuth2(CLIENT_ID, CLIENT_SECRET, API, '', '/oauth/access_token');
    client.getOAuthAccessToken('', { grant_type: 'none', scope }, (error, access_token) =>
      error ? reject(new Error(error.data)) : resolve({ access_token }),
    );
  });
const oauth = {
  'openid-client, Basic': () => openidClient(openid.ClientSecretBasic(CLIENT_SECRET)),
  'openid-client, fields': () => openidClient(openid.ClientSecretPost(CLIENT_SECRET)),
  'oauth4webapi, Basic': () => oauth4web(oauth4webapi.ClientSecretBasic(CLIENT_SECRET)),
  'oauth4webapi, fields': () => oauth4web(oauth4webapi.ClientSecretPost(CLIENT_SECRET)),
  'simple-oauth2, Basic': () => simple('header'),
  'simple-oauth2, fields': () => simple('body'),
  'node-oauth': oauthOfNode,
};

async function statuses(post) {
  const fields = { grant_type: 'none', client_id: CLIENT_ID, client_secret: CLIENT_SECRET, scope };
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  const [minted, text] = await post(tokens, form, `${new URLSearchParams(fields)}`);
  const token = JSON.parse(text).access_token;
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` };
  const event = { client_token: CLIENT_TOKEN, platform_id: 'Café 🎬', segments: ['x'], notify: false };
  const [published] = await post(`${API}/enrichments`, headers, JSON.stringify(event));
  const [tooLong] = await post(`${API}/enrichments`, headers, ' '.repeat(5_000_000));
  const test = `${API}/push_notifications/test?client_token=${CLIENT_TOKEN}`;
  const [unwanted] = await post(test, headers, '{"url": "x"}');
  return { token, statuses: [minted, published, tooLong, unwanted] };
}

for (const name of process.argv.slice(2)) {
  const told = oauth[name] ? { token: (await oauth[name]()).access_token } : await statuses(posts[name]);
  console.log(JSON.stringify(told));
}
