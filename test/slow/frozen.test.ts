import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { cleanUp, Program, ROOT, SAY_READY, script, temporaryFolder } from '../launcher/support';
import { sleep } from '../support/rings';

/** Runs that are frozen as a whole and go on: by `docker pause`, the freezer of a cgroup, a snapshot of the machine. */

afterEach(cleanUp);

const DEADLINES = { GRADRING_TIMEOUT_MS: '15000', GRADRING_CONNECT_TIMEOUT_MS: '15000' };

/** Freezes the launcher and its four ranks when all are ready. Their `go()` settles when they run again. */
async function freeze(source: string, args: string[], frozenMs: number) {
  const thawed = path.join(temporaryFolder(), 'thawed');
  const file = script(`
    const ready = () => { ${SAY_READY} };
    const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));
    const go = async () => { while (!require('node:fs').existsSync(${JSON.stringify(thawed)})) await sleep(50); };
    const { Communicator } = require(${JSON.stringify(path.join(ROOT, 'dist/communicator/communicator.js'))});
    (async () => { ${source} })();`);
  const run = new Program([path.join(ROOT, 'dist/cli.js'), 'run', '-n', '4', ...args, file], DEADLINES);
  const pids = [run.child.pid!, ...(await run.readyRanks(4))];
  await sleep(1_500); // the ranks have begun to wait
  for (const pid of pids) process.kill(pid, 'SIGSTOP');
  await sleep(frozenMs);
  for (const pid of pids) process.kill(pid, 'SIGCONT');
  writeFileSync(thawed, '');
  const { exitCode } = await run.exited;
  return { exitCode, errors: run.stderr, sums: run.stdout.match(/sum 4$/gm)?.length };
}

/** Once more, if a heartbeat was under way when it froze: that link is lost (docs/reliability.md). */
async function freezeWithLinks(...args: Parameters<typeof freeze>) {
  const end = await freeze(...args);
  return end.errors.includes('ERR_PEER_LOST') ? freeze(...args) : end;
}

const UNHARMED = { exitCode: 0, errors: '', sums: 4 };

/** Does so with a run and an elastic run at the same time: most of it is waiting. */
const freezeBoth = (source: string, frozenMs: number, freezes = freeze) =>
  Promise.all([freezes(source, [], frozenMs), freezes(source, ['--min', '2'], frozenMs)]);

test('runs whose ranks wait in a collective, awake and asleep', async () => {
  const source = `
    const ring = await Communicator.connect();
    await ring.barrier();
    ready();
    if (ring.rank === 3) await go();
    if (ring.rank === 1) await ring.barrier();
    else ring.barrierSync();
    console.log('sum', (await ring.allReduce(Float32Array.of(1)))[0]);
    await ring.close();`;
  const ends = await freezeBoth(source, 62_000, freezeWithLinks); // longer than a comm thread may be silent
  expect(ends).toEqual([UNHARMED, UNHARMED]);
}, 240_000);

test('runs whose ranks wait for the others to come', async () => {
  const source = `
    ready();
    if (process.env.RANK === '3') await go();
    const ring = await Communicator.connect();
    console.log('sum', (await ring.allReduce(Float32Array.of(1)))[0]);
    await ring.close();`;
  expect(await freezeBoth(source, 20_000)).toEqual([UNHARMED, UNHARMED]);
}, 120_000);
