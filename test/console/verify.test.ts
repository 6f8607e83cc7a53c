import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { notificationRequest } from '../../src/outgoing/notification.js';
import { newSigningSecret } from '../../src/redis/records/signingSecrets.js';

const folder = join(import.meta.dirname, '../../src/api/console/assets/verify');

interface Language {
  file: string;
  /** Whether it is here. */
  asked: readonly string[];
  /** A program beside the file: it reads `[[headers, body, secret], ...]` from cases.json and prints `true` or `false` for each. */
  main: Record<string, string>;
  run: readonly string[];
}

const languages: Record<string, Language> = {
  Node: {
    file: 'verify.mjs',
    asked: ['node', '--version'],
    main: {
      'main.mjs': `import { readFileSync } from 'node:fs';
import { isGenuine } from './verify.mjs';
for (const [headers, body, secret] of JSON.parse(readFileSync('cases.json', 'utf8'))) {
  console.log(isGenuine(headers, Buffer.from(body), secret));
}`,
    },
    run: ['node', 'main.mjs'],
  },
  Python: {
    file: 'verify.py',
    asked: ['python3', '-c', 'import sys; sys.exit(sys.version_info < (3, 9))'],
    main: {
      'main.py': `import json
from verify import is_genuine
for headers, body, secret in json.load(open("cases.json")):
    print(str(is_genuine(headers, body.encode(), secret)).lower())`,
    },
    run: ['python3', 'main.py'],
  },
  PHP: {
    file: 'verify.php',
    asked: ['php', '--version'],
    main: {
      'main.php': `<?php require 'verify.php';
foreach (json_decode(file_get_contents('cases.json'), true) as [$headers, $body, $secret]) {
    echo isGenuine($headers, $body, $secret) ? "true\\n" : "false\\n";
}`,
    },
    run: ['php', 'main.php'],
  },
  Go: {
    file: 'verify.go',
    asked: ['go', 'version'],
    main: {
      'go.mod': 'module webhook\n\ngo 1.19\n',
      'verify_test.go': `package webhook
import ("encoding/json"; "fmt"; "net/http"; "os"; "testing")
func TestCases(t *testing.T) {
	var cases [][3]json.RawMessage
	text, _ := os.ReadFile("cases.json")
	if err := json.Unmarshal(text, &cases); err != nil { t.Fatal(err) }
	for _, one := range cases {
		var headers map[string]string
		var body, secret string
		json.Unmarshal(one[0], &headers); json.Unmarshal(one[1], &body); json.Unmarshal(one[2], &secret)
		header := http.Header{}
		for name, value := range headers { header.Set(name, value) }
		fmt.Println(IsGenuine(header, []byte(body), secret))
	}
}`,
    },
    run: ['go', 'test', '-count=1', '-v', '.'],
  },
  Java: {
    file: 'Verify.java',
    asked: ['javac', '-version'],
    main: {
      'Main.java': `import java.nio.file.*; import java.util.*;
public final class Main { public static void main(String[] args) throws Exception {
  for (String line : Files.readAllLines(Path.of("cases.tsv"))) {
    String[] f = line.split("\\t", -1);
    Map<String, String> headers = new HashMap<>();
    for (int i = 2; i + 1 < f.length; i += 2) headers.put(f[i], f[i + 1]);
    System.out.println(Verify.isGenuine(headers, f[0].getBytes("UTF-8"), f[1]));
  } } }`,
    },
    run: ['sh', '-c', 'javac -encoding UTF-8 Verify.java Main.java && java -Dfile.encoding=UTF-8 Main'],
  },
};

describe('console: the lines that verify a signature', () => {
  for (const [name, { file, asked, main, run }] of Object.entries(languages)) {
    it(`in ${name} take what is ours, and nothing else`, function () {
      // A compiler that has not run here yet builds its own library first.
      this.timeout(300_000);
      const [program = '', ...args] = asked;
      if (spawnSync(program, args).status !== 0) this.skip();
      const dir = mkdtempSync(join(tmpdir(), 'verify-'));
      try {
        copyFileSync(join(folder, file), join(dir, file));
        for (const [to, text] of Object.entries(main)) writeFileSync(join(dir, to), text);
        const { cases, expected } = casesToTry();
        writeFileSync(join(dir, 'cases.json'), JSON.stringify(cases));
        const lines = cases.map(([headers, body, secret]) =>
          [body, secret, ...Object.entries(headers).flat()].join('\t'),
        );
        writeFileSync(join(dir, 'cases.tsv'), lines.join('\n'));
        const [command = '', ...rest] = run;
        const { stdout, stderr } = spawnSync(command, rest, { cwd: dir, encoding: 'utf8' });
        const answers = stdout.split('\n').filter((line) => line === 'true' || line === 'false');
        assert.deepEqual(answers, expected.map(String), stderr + stdout);
      } finally {
        rmSync(dir, { recursive: true });
      }
    });
  }

  function casesToTry() {
    const [secret, newer, other] = [newSigningSecret(), newSigningSecret(), newSigningSecret()] as const;
    const n = { notificationId: 'msg_AAAAAAAAAAAAAAAAAAAAAA', clientToken: 'SITE', platformId: 'vid-ü "1"' };
    const now = Date.now();
    const { headers, body } = notificationRequest(n, [secret], now);
    const both = notificationRequest(n, [newer, secret], now);
    const old = notificationRequest(n, [secret], now - 400_000);
    const early = notificationRequest(n, [secret], now + 400_000);
    const { 'webhook-signature': _, ...unsigned } = headers;
    const tried: [headers: Record<string, string>, body: string, secret: string, genuine: boolean][] = [
      [headers, body, secret, true],
      [both.headers, body, secret, true],
      [both.headers, body, newer, true],
      [headers, body, other, false],
      [headers, `${body} `, secret, false],
      [{ ...headers, 'webhook-id': 'msg_B' }, body, secret, false],
      [old.headers, body, secret, false],
      [early.headers, body, secret, false],
      [{ ...headers, 'webhook-timestamp': 'soon' }, body, secret, false],
      [unsigned, body, secret, false],
      [{}, body, secret, false],
    ];
    return {
      cases: tried.map(([h, b, s]) => [h, b, s] as const),
      expected: tried.map(([, , , genuine]) => genuine),
    };
  }
});
