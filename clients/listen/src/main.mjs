#!/usr/bin/env node
/** `asset-update-listen`: reads the options and runs the server. Requests go to stdout, everything else to stderr. */
import { readFileSync } from 'node:fs';
import { Command, InvalidArgumentError, Option } from 'commander';
import { createForwarder } from './forward.mjs';
import { createReceiver } from './receiver.mjs';
import { createVerifier } from './signature.mjs';
import { ask, followUpdates, reconcile } from './updates.mjs';
import { forwardedInWords, inWords, updateInWords } from './words.mjs';

const exit = { done: 0, failed: 1, wrongUsage: 2 };

const program = new Command('asset-update-listen')
  .description('Shows each notification that reaches this machine, and whether its signature is valid.')
  .option('--port <number>', 'port to listen on; 0: a free one', between(0, 65_535), 4000)
  .option('--host <address>', 'address to listen on', '127.0.0.1')
  .option('--status <code>', 'the answer if the signature is valid', between(200, 599), 204)
  .option('--delay <seconds>', 'to wait before each answer', seconds, 0)
  .option('--json', 'print each request as one line of JSON')
  .option(
    '--updates <url>',
    'instead of listening, follow the updates that the service at this URL lists',
    httpUrl,
  )
  .option('--client <token>', 'the client whose updates to follow')
  .option('--forward <url>', 'post each update to this URL, signed as the service signs it', httpUrl)
  .option('--replay <id>', 'with --forward: post the notification of this id once, and end')
  .option(
    '--reconcile <file>',
    'compare the updates with what a receiver has stored (lines of platform_id, tab, webhook-id), and end',
  )
  .option('--since <time>', 'with --reconcile: compare no update before this time', time)
  .addOption(new Option('--secret <secret>').hideHelp())
  .addHelpText(
    'after',
    `
Environment:
  SIGNING_SECRETS    the signing secret of your client (whsec_...), or several, separated by spaces.
                     There is no option for it, because arguments are visible in the process list.
  ACCESS_TOKEN       for --updates: an access token of your account. With --forward and without SIGNING_SECRETS
                     the client's signing secret is read with it, and kept in memory.
  NO_COLOR           no colours

A request without a valid signature is answered 401.
Exit status: 0 ended by Ctrl-C, 1 it could not listen, follow or replay, --replay or --reconcile was interrupted,
or --reconcile found something missing or had nothing to compare yet, 2 wrong usage.`,
  )
  .showHelpAfterError('(--help shows the usage)')
  .exitOverride((err) => process.exit(err.exitCode === 0 ? exit.done : exit.wrongUsage));

program.parse();
const { port, host, status, delay, json = false, secret, updates, client, forward, replay } = program.opts();
const { reconcile: stored, since } = program.opts();
const secrets = (process.env.SIGNING_SECRETS ?? '').split(/\s+/).filter((one) => one !== '');
if (secret !== undefined) {
  refuse('Put the secret into SIGNING_SECRETS: arguments are visible in the process list.');
}

process.stdout.on('error', (/** @type {NodeJS.ErrnoException} */ { code }) => {
  // A reader that closes early (`| head`) is not a failure; what `end` was told stays.
  if (code === 'EPIPE') process.exit();
  say(`Cannot print: ${code}`);
  process.exit(exit.failed);
});
if (updates !== undefined) await follow();
for (const [name, value] of Object.entries({ client, forward, replay, reconcile: stored, since })) {
  if (value !== undefined) refuse(`--${name} needs --updates: the address of the service.`);
}

const counts = { good: 0, bad: 0, duplicate: 0 };
const server = createReceiver({
  verify: verifierOf(secrets),
  status,
  delayMs: delay * 1000,
  tell(seen) {
    counts[seen.signature]++;
    if (seen.duplicate) counts.duplicate++;
    process.stdout.write(json ? `${JSON.stringify(seen)}\n` : inWords(seen));
  },
});

server.once('error', (err) => {
  say(whyNot(/** @type {NodeJS.ErrnoException} */ (err)));
  process.exit(exit.failed);
});
/** @type {(err: { code?: string | undefined }, socket: import('node:stream').Duplex) => void} */
const refuseBytes = ({ code }, socket) => {
  say(`Not a whole request over HTTP (HTTPS is not supported): ${code}`);
  socket.on('error', () => undefined).end('HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n');
};
server.on('clientError', refuseBytes);
server.on('connect', ({ method }, socket) => refuseBytes({ code: method }, socket));
server.listen(port, host, () => {
  const address = /** @type {import('node:net').AddressInfo} */ (server.address());
  const at = `http://${host.includes(':') ? `[${host}]` : host}:${address.port}`;
  const after = delay > 0 ? `, after ${delay} s` : '';
  say(
    `Listening at ${at}, on every path. Answers ${status} if the signature is valid, otherwise 401${after}.`,
  );
});

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    say(`${counts.good} good, ${counts.duplicate} of them duplicates; ${counts.bad} bad.`);
    void end(exit.done);
  });
}

/** @returns {Promise<never>} */
async function follow() {
  const token = process.env.ACCESS_TOKEN?.trim();
  if (client === undefined || !token) {
    refuse('To follow updates give --client, and set ACCESS_TOKEN to a token of its account.');
  }
  // No request could carry it, and the error would quote it.
  if (!/^[!-~]+$/.test(token)) refuse('ACCESS_TOKEN is no access token: one line of visible ASCII.');
  if (replay !== undefined && forward === undefined) refuse('--replay needs --forward: the URL to post to.');
  const interrupt = () => {
    if (replay === undefined && stored === undefined) return void end(exit.done);
    say(`Interrupted: --${stored === undefined ? 'replay' : 'reconcile'} has not come to its end.`);
    process.exit(exit.failed);
  };
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, interrupt);
  const access = { url: updates, token, clientToken: client };
  /** @param {unknown} value @param {string} words */
  const show = (value, words) => void process.stdout.write(json ? `${JSON.stringify(value)}\n` : words);
  /** @type {(update: import('./updates.mjs').Update) => unknown} */
  let tell = (update) => show(update, updateInWords(update));
  if (forward !== undefined) {
    secrets[0] ??= (await told(access, 'push_notifications/signing_secret', 'signing_secret')).signing_secret;
    verifierOf(secrets);
    const post = createForwarder({ to: forward, secrets, clientToken: client });
    tell = async (update) => {
      const forwarded = await post(update);
      show(forwarded, forwardedInWords(forwarded));
      return forwarded.answered;
    };
  }
  if (replay !== undefined) {
    const path = `notifications/${encodeURIComponent(replay)}`;
    const { platform_id, accepted_at: updated_at } = await told(access, path, 'platform_id');
    const answered = await tell({ platform_id, notification_id: replay, updated_at });
    await end(answered === null ? exit.failed : exit.done);
  }
  if (stored !== undefined) await compare(access, show);
  const refusal = await followUpdates(access, tell, say);
  say(`The service refuses to list updates: ${refusal}`);
  return await end(exit.failed);
}

/**
 * Ends once everything is printed: a pipe takes it only as fast as its reader reads.
 * @param {number} status
 * @returns {Promise<never>}
 */
function end(status) {
  process.exitCode = status;
  return new Promise(() => process.stdout.write('', (err) => void (err ?? process.exit())));
}

/**
 * Compares, and ends.
 * @param {import('./updates.mjs').Access} access
 * @param {(value: unknown, words: string) => void} show
 */
async function compare(access, show) {
  const found = await reconcile(access, readStored(), since, say);
  if (typeof found === 'string') {
    say(`The service refuses to list updates: ${found}`);
    process.exit(exit.failed);
  }
  for (const update of found.missing) show(update, updateInWords(update));
  say(`${found.missing.length} of ${found.compared} missing, until ${found.until}.`);
  if (found.nothing_compared) say(`Nothing was compared: updates since ${since} may still be owed.`);
  await end(found.missing.length > 0 || found.nothing_compared ? exit.failed : exit.done);
}

function readStored() {
  const text = readTable();
  const bad = text.split('\n').findIndex((line) => line.trim() !== '' && !line.includes('\t'));
  if (bad >= 0) refuse(`--reconcile: line ${bad + 1} has no tab between platform_id and webhook-id`);
  return text;
}

function readTable() {
  try {
    return readFileSync(stored === '-' ? 0 : stored, 'utf8');
  } catch (err) {
    return refuse(`--reconcile: ${/** @type {Error} */ (err).message}`);
  }
}

/**
 * Asks the service once; ends where it refuses.
 * @param {import('./updates.mjs').Access} access
 * @param {string} path
 * @param {string} member which its answer has
 * @returns {Promise<any>}
 */
async function told(access, path, member) {
  const { status: code, body } = await ask(access, path);
  if (code === 200 && body[member]) return body;
  say(`The service refuses ${path}: ${code || 'no answer'}: ${body.msg}`);
  return process.exit(exit.failed);
}

/** @param {string[]} secrets */
function verifierOf(secrets) {
  if (secrets.length === 0) {
    refuse(
      'No secret: set SIGNING_SECRETS to the signing secret of your client\n' +
        '(GET /push_notifications/signing_secret, or Actions in the console).',
    );
  }
  try {
    return createVerifier(secrets);
  } catch (err) {
    if (!(err instanceof TypeError)) throw err;
    return refuse(`SIGNING_SECRETS: ${err.message}`);
  }
}

/** @param {NodeJS.ErrnoException} err */
function whyNot(err) {
  if (err.code === 'EADDRINUSE')
    return `Port ${port} is taken: stop the process that listens there, or choose another with --port.`;
  if (err.code === 'EACCES')
    return `Listening on port ${port} is not permitted: choose one above 1023 with --port.`;
  if (err.code === 'EADDRNOTAVAIL' || err.code === 'ENOTFOUND')
    return `${host} is not an address of this machine.`;
  return `Cannot listen on ${host}, port ${port}: ${err.message}`;
}

/**
 * @param {string} words
 * @returns {never}
 */
function refuse(words) {
  say(words);
  process.exit(exit.wrongUsage);
}

/** @param {string} words */
function say(words) {
  process.stderr.write(`${words}\n`);
}

/**
 * @param {number} least
 * @param {number} most
 */
function between(least, most) {
  return (/** @type {string} */ given) => {
    const number = /^\d+$/.test(given) ? Number(given) : Number.NaN;
    if (number >= least && number <= most) return number;
    throw new InvalidArgumentError(`Give a whole number from ${least} to ${most}.`);
  };
}

/** @param {string} given */
function httpUrl(given) {
  const { protocol, username, password } = URL.canParse(given) ? new URL(given) : new URL('none:');
  if (/^https?:$/.test(protocol) && username + password === '') return given;
  throw new InvalidArgumentError('Give an absolute http or https URL, without a user.');
}

/** @param {string} given */
function time(given) {
  if (!Number.isNaN(Date.parse(given))) return given;
  throw new InvalidArgumentError('Give a time such as 2026-01-31T12:00:00Z.');
}

/** @param {string} given */
function seconds(given) {
  const number = given.trim() === '' ? Number.NaN : Number(given);
  if (number >= 0 && number <= 600) return number;
  throw new InvalidArgumentError('Give a number of seconds from 0 to 600.');
}
