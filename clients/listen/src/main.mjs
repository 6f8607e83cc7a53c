#!/usr/bin/env node
/** `asset-update-listen`: options, and the server's life. Requests go to stdout, all else to stderr. */
import { Command, InvalidArgumentError, Option } from 'commander';
import { createReceiver } from './receiver.mjs';
import { createVerifier } from './signature.mjs';
import { inWords } from './words.mjs';

const exit = { done: 0, failed: 1, wrongUsage: 2 };

const program = new Command('asset-update-listen')
  .description('Shows each notification that reaches this machine, and whether its signature is valid.')
  .option('--port <number>', 'to listen at; 0: a free one', between(0, 65_535, 'a port'), 4000)
  .option('--host <address>', 'to listen at', '127.0.0.1')
  .option('--status <code>', 'the answer where the signature is valid', between(200, 599, 'a status'), 204)
  .option('--delay <seconds>', 'before each answer', seconds, 0)
  .option('--json', 'each request as one line of JSON')
  .addOption(new Option('--secret <secret>').hideHelp())
  .addHelpText(
    'after',
    `
Environment:
  SIGNING_SECRETS    the signing secret of your client (whsec_...); several are separated by spaces.
                     It is no option: arguments are in the list of processes.
  NO_COLOR           no colours

What has no valid signature is answered 401.
Exit status: 0 ended by Ctrl-C, 1 it could not listen, 2 wrong usage.`,
  )
  .showHelpAfterError('(--help says how it is used)')
  .exitOverride((err) => process.exit(err.exitCode === 0 ? exit.done : exit.wrongUsage));

program.parse();
const { port, host, status, delay, json = false, secret } = program.opts();
if (secret !== undefined) {
  refuse('Put the secret into SIGNING_SECRETS: arguments are in the list of processes.');
}

const counts = { good: 0, bad: 0, duplicate: 0 };
const server = createReceiver({
  verify: verifierOf((process.env.SIGNING_SECRETS ?? '').split(/\s+/).filter((one) => one !== '')),
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
server.listen(port, host, () => {
  const address = /** @type {import('node:net').AddressInfo} */ (server.address());
  const at = `http://${host.includes(':') ? `[${host}]` : host}:${address.port}`;
  say(
    `Listening at ${at}, on every path. Valid: ${status}${delay > 0 ? ` after ${delay} s` : ''}; else 401.`,
  );
});

// A reader that has seen enough (`| head`) is no failure.
process.stdout.on('error', () => process.exit(exit.done));
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    say(`${counts.good} good, ${counts.duplicate} of them duplicates; ${counts.bad} bad.`);
    process.exit(exit.done);
  });
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
    return `Port ${port} is taken: end what listens there, or choose with --port.`;
  if (err.code === 'EACCES') return `You may not listen at port ${port}: choose one above 1023 with --port.`;
  if (err.code === 'EADDRNOTAVAIL' || err.code === 'ENOTFOUND')
    return `${host} is no address of this machine.`;
  return `Cannot listen at ${host}, port ${port}: ${err.message}`;
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
 * @param {string} what
 */
function between(least, most, what) {
  return (/** @type {string} */ given) => {
    const number = /^\d+$/.test(given) ? Number(given) : Number.NaN;
    if (number >= least && number <= most) return number;
    throw new InvalidArgumentError(`It is no number from ${least} to ${most}, as ${what} is.`);
  };
}

/** @param {string} given */
function seconds(given) {
  const number = given.trim() === '' ? Number.NaN : Number(given);
  if (number >= 0 && number <= 600) return number;
  throw new InvalidArgumentError('It is no number of seconds from 0 to 600.');
}
