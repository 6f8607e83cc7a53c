/**
 * Records the bytes of the token call that a program sends: `npx tsx test/api/recorded/record.ts NAME PROGRAM ARGS...`
 * writes NAME.http. The program is told the address by TOKEN_URL and sends the placeholders below, which the test
 * replaces by an account's credentials of the same length.
 */
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { placeholders } from './placeholders.js';

const [name = '', program = '', ...args] = process.argv.slice(2);
const pieces: Buffer[] = [];
const server = createServer((req, res) => {
  req.resume().once('end', () => {
    writeFileSync(join(import.meta.dirname, `${name}.http`), Buffer.concat(pieces));
    res.setHeader('Connection', 'close').setHeader('Content-Type', 'application/json').end('{}');
  });
});
server.on('connection', (socket) => socket.on('data', (piece) => pieces.push(piece)));
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  const env = {
    ...process.env,
    TOKEN_URL: `http://127.0.0.1:${port}/oauth/access_token`,
    CLIENT_ID: placeholders.clientId,
    CLIENT_SECRET: placeholders.clientSecret,
  };
  const child = spawn(program, args, { stdio: 'inherit', env });
  child.on('exit', () => {
    server.close();
    server.closeAllConnections();
  });
});
