// Takes customers on, at the operators' door: node customers.mjs < customers.jsonl >> taken-on.jsonl
// Each line is {"name", "sites": [{"name", "token"}]}; the name must be unique. Run it again after a failure: who is there stays as it is.
// OPERATOR_URL and OPERATOR_TOKEN (role admin) name the door and the caller.
import { createInterface } from 'node:readline';

const { OPERATOR_URL, OPERATOR_TOKEN } = process.env;
if (!/^[!-~]+\s*$/.test(OPERATOR_TOKEN ?? '')) throw new Error('OPERATOR_TOKEN is not one line of ASCII');
const headers = { authorization: `Bearer ${OPERATOR_TOKEN}`, 'content-type': 'application/json' };

async function create(what, input) {
  const body = JSON.stringify({ ...input, if_absent: true, reason: 'back office' });
  const url = new URL(`/operator/${what}/create`, OPERATOR_URL);
  const answer = await fetch(url, { method: 'POST', headers, body });
  if (answer.ok) return await answer.json();
  throw new Error(`${what} ${input.name}: ${answer.status} ${await answer.text()}`);
}
const [lines, names] = [createInterface({ input: process.stdin })[Symbol.asyncIterator](), new Set()];
async function takeOn() {
  for (let line = await lines.next(); !line.done; line = await lines.next()) {
    const { name, sites } = JSON.parse(line.value);
    if (names.size === names.add(name).size) throw new Error(`two customers have the name ${name}`);
    const account = await create('account', { name });
    // The client_secret is there only the first time: store it, or rotate it with /operator/account/rotate-secret.
    console.log(JSON.stringify(account));
    for (const site of sites) await create('client', { ...site, account: account.account_id });
  }
}
// A refusal ends one of 16 loops: an account under way in another one still gets its line.
for (const { reason } of await Promise.allSettled(Array.from({ length: 16 }, takeOn)))
  if (reason) throw reason;
