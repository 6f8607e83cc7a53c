// node callers.mjs <client>: what the client is answered, as one line of JSON
import http from 'node:http';
import * as openid from 'openid-client';

const { API, CLIENT_ID, CLIENT_SECRET, CLIENT_TOKEN } = process.env;
const tokens = `${API}/oauth/access_token`;
const scope = 'push_notifications enrichments';
const server = { issuer: API, token_endpoint: tokens };

const posts = {
  async fetch(url, headers, body) {
    const answer = await fetch(url, { method: 'POST', headers, body });
    return [answer.status, await answer.text()];
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
const oauth = {
  'openid-client, Basic': () => openidClient(openid.ClientSecretBasic(CLIENT_SECRET)),
  'openid-client, fields': () => openidClient(openid.ClientSecretPost(CLIENT_SECRET)),
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
