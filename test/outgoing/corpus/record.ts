/** Records what curl, Python and Go make of each answer: `npx tsx test/outgoing/corpus/record.ts`. */
import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { answers } from './answers.js';

const run = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), 'corpus-'));
/** Each prints the status, as soon as it has the head of an answer, or fails. */
const python = `import http.client,sys
c=http.client.HTTPConnection('127.0.0.1',int(sys.argv[1]),timeout=5)
c.request('POST','/','{}')
print(c.getresponse().status)`;
const go = `package main
import ("fmt";"net/http";"os";"strings")
func main(){r,err:=http.Post("http://127.0.0.1:"+os.Args[1]+"/","application/json",strings.NewReader("{}"));if err!=nil{os.Exit(1)};fmt.Print(r.StatusCode)}`;
writeFileSync(join(folder, 'post.go'), go);
await run('go', ['build', '-o', join(folder, 'post'), join(folder, 'post.go')]);

let answer = '';
const server = createServer((socket) => {
  socket.on('error', () => undefined).once('data', () => socket.end(answer, 'latin1'));
});
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
const port = String((server.address() as AddressInfo).port);
const clients = {
  // The head is enough: with -w the status is printed even if the body fails.
  curl: [
    'curl',
    ['-s', '-m', '5', '-o', '/dev/null', '-w', '%{http_code}', '-d', '{}', `http://127.0.0.1:${port}/`],
  ],
  python: ['python3', ['-c', python, port]],
  go: [join(folder, 'post'), [port]],
} as const;

const recorded: Record<string, Record<string, number>> = {};
for (const name of Object.keys(answers)) {
  answer = answers[name] ?? '';
  recorded[name] = {};
  for (const [client, [command, args]] of Object.entries(clients)) {
    const failed = (error: { stdout?: string }) => ({ stdout: client === 'curl' ? error.stdout : '' });
    const { stdout } = await run(command, [...args]).catch(failed);
    Object.assign(recorded[name] ?? {}, { [client]: Number(stdout) || 0 });
  }
}
server.close();
const lines = Object.entries(recorded).map(
  ([name, got]) => `  ${JSON.stringify(name)}: ${JSON.stringify(got)}`,
);
writeFileSync(join(import.meta.dirname, 'recorded.json'), `{\n${lines.join(',\n')}\n}\n`);
