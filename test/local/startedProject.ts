/** `npm start` with a data folder of its own, as a second clone would have. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../../local/ports.js';
import { isSameProcess, type ProcessMark } from '../../local/processMark.js';
import type { RunState } from '../../local/runState.js';
import { projectDir } from '../../src/operator/npmStart.js';
import { type Program, startProgram } from '../program.js';
import { newFolder } from '../servers.js';

/** Ports of its own, because another test may be about to start on the usual ones. */
export async function ownPorts(): Promise<NodeJS.ProcessEnv> {
  const names = ['ADMIN_PORT', 'REDIS_PORT', 'TEMPORAL_PORT', 'TEMPORAL_UI_PORT'];
  return Object.fromEntries(await Promise.all(names.map(async (name) => [name, `${await freePort()}`])));
}

export async function newProject(ports: NodeJS.ProcessEnv = {}) {
  const dir = await newFolder();
  const port = await freePort();
  const programs: Program[] = [];
  const seen: ProcessMark[] = [];
  const { REDIS_URL, TEMPORAL_ADDRESS, ...inherited } = process.env;
  // A proxy that serves nobody: it is not for this machine.
  const proxies = { http_proxy: 'http://127.0.0.1:1', no_proxy: 'example.com' };
  const env = { ...inherited, ...ports, ...proxies, DATA_DIR: dir, PORT: String(port), LOG_LEVEL: 'info' };

  /** One more `npm start` in the folder, by another program if it is given. */
  function launch(...by: string[]): Program {
    const [command = '', ...args] = [...by, process.execPath, join(projectDir, 'local/launch.mjs'), 'start'];
    const program = startProgram(command, args, { env });
    programs.push(program);
    return program;
  }
  return {
    dir,
    port,
    launch,
    /** @throws with everything it said, when it ends before it is ready */
    async start(): Promise<RunState & { program: Program }> {
      const program = launch();
      await program.until('npm start is ready', async () => /Ctrl-C stops all of it/.test(program.said()));
      const state = JSON.parse(readFileSync(join(dir, 'run.json'), 'utf8')) as RunState;
      seen.push(state.supervisor, ...state.children);
      return { ...state, program };
    },
    stillRunning: () => seen.filter(isSameProcess),
    async remove(): Promise<void> {
      await Promise.all(programs.map((program) => program.stop()));
    },
  };
}
