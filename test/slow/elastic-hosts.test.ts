import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describeWith } from './support/programs';
import { SshHosts } from './support/ssh-hosts';

const ROOT = path.join(__dirname, '../..');
const CLI = path.join(ROOT, 'dist/cli.js');

/**
 * Trains until there is a file `end`, and lets newcomers in all the time. Rank 0 tells the size of each ring that
 * begins a step: not of one that lets a newcomer in before.
 */
const SCRIPT = `
const { existsSync } = require('node:fs');
const { connect, loadBackend, dgc } = require(${JSON.stringify(ROOT)});
(async () => {
  const { tf } = await loadBackend({ backend: 'cpu' });
  const ring = await connect();
  const w = tf.variable(tf.zeros([2000]), true, 'w');
  const optimizer = ring.wrap(tf.train.momentum(0.01, 0.5), { compression: dgc({ sparsity: 0.9, warmUpSteps: 4 }) });
  const checkpoint = ring.checkpoint({ variables: [w], optimizer }, { dir: 'saved', every: 5 });
  const { step } = await checkpoint.resume();
  console.log('rank ' + ring.launched.rank + ' (' + process.pid + ') begins at ' + (step === 0 ? 'the start' : 'a later step'));
  for (let generation = -1, isOver = 0; !isOver;) {
    if (ring.generation !== generation && ring.rank === 0) console.log('a ring of ' + ring.worldSize);
    generation = ring.generation;
    await optimizer.minimizeAsync(() => w.sub(ring.launched.rank).square().mean());
    isOver = await ring.allOrNone(async () => (await ring.allReduce(Float64Array.of(+existsSync('end'))))[0]);
    await checkpoint.afterStep();
    if (ring.rank === 0 && optimizer.statistics.steps === 6) console.log('step 6 is done');
    if (!isOver) await ring.commit();
    await new Promise(resolve => setTimeout(resolve, 20));
  }
  await ring.verifyReplicas([w]);
  console.log('rank ' + ring.launched.rank + ' is done');
  await ring.close();
})();
`;

describeWith(['ip', 'nft', 'sshd', 'ssh', 'ssh-keygen', 'unshare'], 'an elastic run on several hosts', () => {
  let folder: string;
  let hosts: SshHosts;
  const launchers: ChildProcess[] = [];

  beforeEach(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'gradring-elastic-hosts-'));
    writeFileSync(path.join(folder, 'train.js'), SCRIPT);
    hosts = await new SshHosts().start({ a: [], b: [], c: [] });
  }, 60_000);
  afterEach(() => {
    launchers.splice(0).forEach(launcher => launcher.kill('SIGKILL'));
    hosts.stop();
    rmSync(folder, { recursive: true });
  });

  function run(...args: string[]) {
    const child = spawn(process.execPath, [CLI, 'run', `--ssh-args=${hosts.sshArgs}`, ...args, 'train.js'], {
      cwd: folder,
      // By silence it is noticed that a network is cut, and some of the tests wait for that: not the whole default.
      env: { ...process.env, GRADRING_HEARTBEAT_TIMEOUT_MS: '5000' },
    });
    launchers.push(child);
    const said = { output: '' };
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (bytes: Buffer) => (said.output += String(bytes)));
    const ended = new Promise<number | null>(resolve => child.once('close', resolve));
    const untilSaid = async (words: RegExp, times = 1): Promise<void> => {
      for (const end = Date.now() + 60_000; (said.output.match(new RegExp(words, 'g')) ?? []).length < times;) {
        if (Date.now() > end) throw new Error(`Not said: ${words}\n${said.output}`);
        await sleep(50);
      }
    };
    return { said, ended, untilSaid };
  }

  const end = () => writeFileSync(path.join(folder, 'end'), '');
  const doneIn = (output: string) => [...output.matchAll(/rank (\d) is done/g)].map(([, rank]) => Number(rank)).sort();
  const pidOf = (rank: number, output: string) => Number([...output.matchAll(new RegExp(`rank ${rank} \\((\\d+)\\) begins`, 'g'))].at(-1)![1]); // prettier-ignore

  test('a rank that is killed is started again on its host, and joins', async () => {
    const { said, ended, untilSaid } = run('-H', 'a:1,b:2', '--min', '2', '--max-restarts', '1');
    await untilSaid(/a ring of 3/);
    process.kill(pidOf(2, said.output), 'SIGKILL');
    await untilSaid(/a ring of 3/, 2); // a ring of 2 between them may have been too short to be told
    end();
    expect(await ended).toBe(0);
    expect(said.output).toMatch(/rank 2 \(pid \d+ on b\) was lost \(SIGKILL\); 2 ranks continue/);
    expect(said.output).toMatch(/rank 2 is started again \(restart 1 of 1\)/);
    expect(said.output.match(/rank 2 .* begins at .*/g)!.map(line => line.split(' at ')[1])).toEqual([
      'the start',
      'a later step',
    ]);
    expect(doneIn(said.output)).toEqual([0, 1, 2]);
  }, 120_000);

  test('a host that is cut off takes its ranks with it, and the others continue', async () => {
    const { said, ended, untilSaid } = run('-H', 'a:1,b:2,c:1', '--min', '2', '--max-restarts', '2');
    await untilSaid(/a ring of 4/);
    hosts.cut('b');
    await untilSaid(/a ring of 2/);
    await untilSaid(/is not started again/, 2);
    end();
    expect(await ended).toBe(0);
    for (const rank of [1, 2]) {
      expect(said.output).toContain(`gradring: rank ${rank} is not started again: the connection to b is lost.`);
    }
    expect(doneIn(said.output)).toEqual([0, 3]);
  }, 120_000);

  test('with too few ranks left all are started again from their checkpoint, unless a host is lost', async () => {
    const { said, ended, untilSaid } = run('-H', 'a:1,b:1', '--max-restarts', '2');
    await untilSaid(/step 6 is done/); // it has saved
    process.kill(pidOf(1, said.output), 'SIGKILL');
    await untilSaid(/begins at a later step/, 2);
    await untilSaid(/a ring of 2/, 2);
    expect(said.output).toMatch(/all are started again \(restart 1 of 2\)/);
    hosts.cut('b');
    expect(await ended).toBe(137);
    expect(said.output).toMatch(/rank 1 .* was lost .*; 1 rank left, fewer than 2: the connection to b is lost\./);
  }, 120_000);

  test('hosts that cannot reach each other any more, but the launcher: one of them is left out', async () => {
    const { said, ended, untilSaid } = run('-H', 'a:1,b:1,c:1', '--min', '2');
    await untilSaid(/a ring of 3/);
    const rules = 'add table ip t; add chain ip t o { type filter hook output priority 0; }';
    execFileSync(...hosts.on('a', `nft '${rules}; add rule ip t o ip daddr ${hosts.addresses['b']} drop'`));
    await untilSaid(/a ring of 2/);
    end();
    expect(await ended).toBe(0);
    expect(said.output).toContain(
      'ranks 0, 1 cannot connect to their neighbours; rank 1 is killed, so that the others',
    );
    expect(doneIn(said.output)).toEqual([0, 2]);
  }, 120_000);
});
