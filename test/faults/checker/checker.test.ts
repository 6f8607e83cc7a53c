/**
 * Two processes under random use, kills, stops and steps of Redis' clock; what callers and receivers have seen is judged by the
 * contract. Each round has a seed of its own: FAULT_CHECKER_SEED repeats the draws, though not the times.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createSecureServer } from 'node:https';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { projectDir } from '../../../src/operator/npmStart.js';
import { createOperatorToken } from '../../../src/redis/records/operatorAccess.js';
import { ownKey } from '../../outgoing/rawReceiver.js';
import { portOf, startReceiver } from '../../receiver.js';
import { newFolder, openForSuite } from '../../servers.js';
import { newToken } from '../../service.js';
import { form } from '../form.js';
import { setScene } from '../scene.js';
import { servers } from '../system.js';
import { type Disturbance, Facts, type Post, Site } from './facts.js';
import { handshakeMs, isMet, listedAtMost, properties } from './properties.js';
import { createRandom, type Random } from './random.js';
import { createUser, type Process, type Reach } from './user.js';

const sites = 6;
const chaosMs = Math.min(20_000, form.checkerMinutes * 20_000);
/** An asset that nothing works on is picked up within 30 s; then come a lease, retries and a busy machine. */
const calmWithinMs = 60_000;
/** Redis may run a call so much later than it was made, and an attempt is settled after its answer. */
const overAfterMs = 3000;

type Kind = Exclude<Disturbance['kind'], 'busy'>;
const processes: readonly Process[] = ['api', 'api2'];
// libfaketime starts no process beside the files that a killed one of the same number has left.
for (const name of existsSync('/dev/shm') ? readdirSync('/dev/shm') : []) {
  const [, pid] = /faketime_(?:shm|sem)_(\d+)$/.exec(name) ?? [];
  if (pid !== undefined && !existsSync(`/proc/${pid}`)) rmSync(join('/dev/shm', name));
}
const faketime = spawnSync('faketime', ['-f', '+0', 'printenv', 'LD_PRELOAD'], { encoding: 'utf8' });
/** By then Redis has removed whatever it removes by itself. */
const leapMs = 32 * 86_400_000;
const canStep = faketime.status === 0;

describe('a checker from outside', function () {
  this.timeout((form.checkerMinutes + 5) * 60_000);
  const checker = openForSuite(() => startChecker());

  for (const [title, kinds] of [
    ['finds nothing that the contract does not allow', []],
    ['nor with kills and stops', ['kill', 'stop', 'killRedis']],
    ['nor with steps of Redis’ clock', ['step', 'kill', 'stop', 'leap']],
  ] as [string, Kind[]][]) {
    const isPossible = canStep || !kinds.includes('step');
    (isPossible ? it : it.skip)(title, async () => {
      const endsAt = Date.now() + (form.checkerMinutes * 60_000) / 3;
      do await checker.round(kinds);
      while (Date.now() < endsAt);
    });
  }
});

async function startChecker() {
  const clock = join(await newFolder(), 'clock');
  let clockMs = 0;
  const setClock = (ms: number) => {
    clockMs = ms;
    // In one step: Redis reads the file at each look at the time.
    writeFileSync(`${clock}.new`, `${ms < 0 ? '' : '+'}${(ms / 1000).toFixed(3)}`);
    renameSync(`${clock}.new`, clock);
  };
  setClock(0);
  const scene = await setScene({
    together: true,
    parts: [...servers, ...processes],
    clients: sites,
    env: {
      FAULT_LISTED_AT_MOST: String(listedAtMost),
      TRUSTED_ROOTS_FILE: join(projectDir, 'test/outgoing/certificate/certificate.pem'),
    },
    redisEnv: canStep
      ? {
          LD_PRELOAD: faketime.stdout.trim().replace('libfaketime.', 'libfaketimeMT.'),
          FAKETIME_TIMESTAMP_FILE: clock,
          FAKETIME_NO_CACHE: '1',
          FAKETIME_DONT_FAKE_MONOTONIC: '1',
        }
      : {},
  });
  const { system, db, cast } = scene;
  const facts = new Facts();
  await system.receiver.breakOff();
  const receiver = await startReceivers(facts, Number(new URL(system.receiverUrl).port));
  for (const clientToken of cast.clientTokens) {
    const url = `${system.receiverUrl}/${clientToken}`;
    facts.sites.push(new Site(clientToken, { url, isPaused: false, quietSeconds: 0 }));
  }
  const tokens = {
    platform: cast.platform.token,
    publisher: cast.publisher.token,
    operator: (await createOperatorToken(db, { name: 'checker', role: 'admin' })) ?? '',
  };
  const urlsOf = (part: Process) => ({ api: system.apiUrlOf(part), admin: system.adminUrlOf(part) });
  const stopped = new Set<Process>();
  const backAt = { api: 0, api2: 0 };
  async function renewTokens(): Promise<void> {
    const part = processes.find((one) => !stopped.has(one)) ?? 'api';
    // Who was killed just now is asked again.
    for (const who of ['platform', 'publisher'] as const)
      tokens[who] = await newToken({ url: system.apiUrlOf(part) }, cast[who]).catch(() => '');
  }

  let seed = form.checkerSeed;

  const disturbances: Record<Kind, (random: Random, part: Process) => Promise<unknown>> = {
    async kill(_, part) {
      await system.kill(part);
      await system.start(part);
    },
    async killRedis() {
      await system.kill('redis');
      await system.start('redis');
    },
    async stop(random, part) {
      const pid = system.pidOf(part);
      if (pid === undefined) return;
      stopped.add(part);
      process.kill(pid, 'SIGSTOP');
      await pause(random.between(1500, 20_000));
      process.kill(pid, 'SIGCONT');
      stopped.delete(part);
      backAt[part] = Date.now();
    },
    async step(random) {
      if (clockMs < leapMs) setClock(Math.round(random.between(-200_000, 200_000)));
    },
    async leap(random) {
      const before = clockMs;
      setClock(leapMs);
      await pause(random.between(1000, 5000));
      setClock(before);
    },
  };

  async function disturb(random: Random, kinds: readonly Kind[], until: number) {
    const under: Promise<unknown>[] = [];
    let isBusy = false;
    while (kinds.length > 0 && Date.now() < until) {
      await pause(random.between(500, 6000));
      const kind = random.one(kinds);
      const part = random.one(processes);
      if (isBusy && kind !== 'step') continue;
      const one: Disturbance = {
        kind,
        what: kind === 'kill' || kind === 'stop' ? `${kind} of ${part}` : kind,
        from: Date.now(),
        to: Infinity,
      };
      facts.disturbances.push(one);
      // A step is over at once, and frees nobody to disturb what still starts.
      if (kind !== 'step') isBusy = true;
      const done = disturbances[kind](random, part).then(() => {
        one.to = Date.now();
        if (kind !== 'step') isBusy = false;
      });
      under.push(done);
    }
    await Promise.all(under);
  }

  return {
    /** Lets everybody do what they like, then waits until all is quiet, and judges. */
    async round(kinds: readonly Kind[]): Promise<void> {
      const roundSeed = seed++;
      const random = createRandom(roundSeed);
      facts.forget();
      const began = Date.now();
      const reach: Reach = {
        facts,
        random,
        urls: { api: urlsOf('api'), api2: urlsOf('api2') },
        tokens,
        renewTokens,
        receiverUrls: receiver.urls,
        isStopped: (part) => stopped.has(part),
        async untilOver(part) {
          const lostAt = Date.now();
          while (stopped.has(part) || Date.now() < Math.max(lostAt, backAt[part]) + overAfterMs)
            await pause(50);
        },
      };
      const user = createUser(reach);
      const stopUser = user.start(8, 150);
      const stopMoods = receiver.changeMoods(random);
      await Promise.all([disturb(random, kinds, began + chaosMs), pause(chaosMs)]);
      await stopMoods();
      await stopUser();
      for (const site of facts.sites) await user.open(site);
      const isMetAll = () =>
        facts.sites.every(
          (site) =>
            site.posts.every(({ endedAt }) => endedAt !== undefined) &&
            [...site.assets.values()].every((asset) => isMet(asset)),
        );
      const calmFrom = Date.now();
      const isCalm = async () =>
        isMetAll() && (await Promise.all(facts.sites.map(user.isOver))).every((isOver) => isOver);
      while (!(await isCalm()) && Date.now() < calmFrom + calmWithinMs) await pause(100);
      const calmMs = Date.now() - calmFrom;
      // What nobody asked for would come now; verdicts are settled.
      await pause(overAfterMs);
      const found = [...(await judge()), ...((await isCalm()) ? [] : ['a site is still owed something'])];
      const posts = facts.sites.reduce((sum, site) => sum + site.posts.length, 0);
      const done = [...user.calls].map(([kind, times]) => `${kind} ${times}`).join(', ');
      const isDone = ({ kind, from }: Disturbance) => from >= began && kind !== 'busy';
      const broken = facts.disturbances.filter(isDone).map(({ what }) => what);
      console.log(
        `      seed ${roundSeed}: ${posts} POSTs, ${done}; ${broken.join(', ') || 'nothing broken'}; calm after ${calmMs} ms`,
      );
      for (const one of found) console.log(`        ${one}`);
      assert.equal(found.length, 0, `seed ${roundSeed}, after ${Date.now() - began} ms`);
    },
    async stop() {
      await receiver.close();
      await scene.stop();
    },
  };

  async function judge(): Promise<string[]> {
    const door = { url: system.apiUrl, token: tokens.publisher };
    const found = facts.wrong.map((wrong) => `answers: ${wrong}`);
    for (const site of facts.sites)
      for (const [name, property] of Object.entries(properties))
        for (const wrong of await (async () => property(facts, site, door))().catch((err) => [`${err}`]))
          found.push(`${name}: ${site.clientToken} ${wrong}`);
    return [...found, ...system.brokenOff];
  }
}

type Mood = 'well' | 'slow' | 'fails' | 'refuses' | 'hangs';

/** The sites' receivers: one server that notes each POST, and answers each site's in its mood. */
async function startReceivers(facts: Facts, port: number) {
  const receiver = await startReceiver(port);
  const moods = new Map<string, Mood>();
  let answers = createRandom(1);
  receiver.onHeaders = (req, res) => {
    const at = Date.now();
    const post: Post = { id: String(req.headers['webhook-id']), url: '', platformId: '', at };
    res.once('close', () => {
      post.endedAt = Date.now();
      post.isOk = res.writableFinished && res.statusCode < 300;
    });
    posts.set(req.headers, post);
    // Each attempt makes a handshake of its own.
    if (req.headers.host === farHost) res.setHeader('connection', 'close');
  };
  const posts = new WeakMap<object, Post>();
  // The same behind TLS: who is stopped during a handshake has decided to send, and has not sent.
  const secure = createSecureServer(ownKey, receiver.serve).on('tlsClientError', () => undefined);
  const far = createServer((socket) => {
    socket.on('error', () => undefined);
    setTimeout(() => secure.emit('connection', socket), answers.between(0, handshakeMs));
  });
  const farHost = `127.0.0.1:${await portOf(far)}`;
  const origins = { near: receiver.url.replace(/\/hook$/, ''), far: `https://${farHost}` };
  receiver.answer = async ({ headers, path, body }) => {
    const clientToken = String(headers['webhook-client-token']);
    const post = posts.get(headers) as Post;
    post.url = (headers.host === farHost ? origins.far : origins.near) + path;
    post.platformId = JSON.parse(body).platform_id;
    const site = facts.sites.find((one) => one.clientToken === clientToken);
    site?.posts.push(post);
    switch (moods.get(clientToken) ?? 'well') {
      case 'well':
        await pause(answers.between(0, 30));
        return 204;
      case 'slow':
        await pause(answers.between(300, 1200));
        return 200;
      case 'fails':
        return 500;
      case 'refuses':
        return { status: 503, headers: { 'retry-after': answers.one(['1', '2', '3']) } };
      case 'hangs':
        return 'hang';
    }
  };
  return {
    urls: Object.values(origins),
    /** @returns what ends it, with every receiver well */
    changeMoods(random: Random): () => Promise<void> {
      answers = random;
      let isOver = false;
      const running = (async () => {
        while (!isOver) {
          const { clientToken } = random.one(facts.sites);
          const mood = random.weighted({ well: 4, slow: 5, fails: 1, refuses: 1, hangs: 0.5 });
          moods.set(clientToken, mood);
          await pause(random.between(200, 1500));
        }
      })();
      return async () => {
        isOver = true;
        await running;
        moods.clear();
      };
    },
    async close() {
      far.close();
      await receiver.close();
    },
  };
}
