import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readPage } from '../support/doc-pages';
import { describeWith, whereIs } from './support/programs';
import { SshHosts } from './support/ssh-hosts';

const ROOT = path.join(__dirname, '../..');
const CLI = path.join(ROOT, 'dist/cli.js');

/** Who the ranks are, what they have of the launcher, and the sum of their numbers. With an argument they stay. */
const SCRIPT = `
const { connect } = require(${JSON.stringify(path.join(ROOT, 'dist/core.js'))});
(async () => {
  const ring = await connect();
  const sum = await ring.allReduce(Float32Array.of(ring.rank));
  console.log(ring.rank + ' of ' + ring.worldSize + ', local ' + ring.localRank + ', sum ' + sum[0] + ', ' + process.cwd() + ', ' + process.env.COLOR);
  if (process.argv[2] === 'fail' && ring.rank === 2) throw new Error('as it was told');
  if (process.argv[2]) await new Promise(resolve => setTimeout(resolve, 600_000));
  await ring.close();
})();
`;

/** Trains until it is told to stop. */
const STOPPING = `
const { connect, loadBackend, noCompression } = require(${JSON.stringify(ROOT)});
(async () => {
  const { tf } = await loadBackend({ backend: 'cpu' });
  const ring = await connect();
  const w = tf.variable(tf.zeros([10]), true, 'w');
  const optimizer = ring.wrap(tf.train.sgd(0.1), { compression: noCompression() });
  const checkpoint = ring.checkpoint({ variables: [w], optimizer }, { dir: 'stopped' });
  const { step } = await checkpoint.resume();
  while (performance.now() < 60_000) {
    await optimizer.minimizeAsync(() => w.sub(ring.rank).square().mean());
    await checkpoint.afterStep();
    if (optimizer.statistics.steps === 1) console.log(ring.rank + ' began at ' + step);
  }
})();
`;

describeWith(['ip', 'sshd', 'ssh', 'ssh-keygen', 'unshare'], 'gradring run --hosts', () => {
  let folder: string;
  let script: string;
  let hosts: SshHosts;
  const launchers: ChildProcess[] = [];

  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'gradring-hosts-'));
    script = path.join(folder, 'train.js');
    writeFileSync(script, SCRIPT);
    writeFileSync(path.join(folder, 'stopping.js'), STOPPING);
    writeFileSync(path.join(folder, 'other.js'), `${SCRIPT}// changed`);
    const manifest = path.join(ROOT, 'package.json');
    const newer = readFileSync(manifest, 'utf8').replace(/"version": ".*?"/, '"version": "9.9.9"');
    writeFileSync(path.join(folder, 'package.json'), newer);
    writeFileSync(path.join(folder, 'node'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
    hosts = await new SshHosts().start({
      ...{ a: [], b: [], c: [] },
      other: [[script, path.join(folder, 'other.js')]],
      newer: [[manifest, path.join(folder, 'package.json')]],
      broken: [[process.execPath, path.join(folder, 'node')]],
    });
  }, 60_000);
  afterEach(() => launchers.splice(0).forEach(launcher => launcher.kill('SIGKILL')));
  afterAll(() => {
    hosts.stop();
    rmSync(folder, { recursive: true });
  });

  const run = (...args: string[]) => runWith([], ...args);

  function runWith(nodeArgs: readonly string[], ...args: string[]) {
    const all = [...nodeArgs, CLI, 'run', `--ssh-args=${hosts.sshArgs}`, ...args];
    const child = spawn(process.execPath, all, { cwd: folder, env: { ...process.env, COLOR: 'green' } });
    launchers.push(child);
    const said = { output: '' };
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (bytes: Buffer) => (said.output += String(bytes)));
    const ended = new Promise<number | null>(resolve => child.once('close', resolve));
    return { child, said, ended };
  }

  /** The processes of ranks and agents, on all hosts. */
  const left = () => {
    try {
      return execFileSync('pgrep', ['-f', `${script}|${CLI} agent`], { encoding: 'utf8' })
        .trim()
        .split('\n');
    } catch {
      return [];
    }
  };
  /** Waits as long as a test may take. */
  const until = async (isTrue: () => boolean) => {
    for (const end = Date.now() + 50_000; !isTrue();) {
      if (Date.now() > end) throw new Error('This did not come true.');
      await sleep(50);
    }
  };
  const untilNoneIsLeft = () => until(() => left().length === 0);
  const untilAllRun = (said: { output: string }, ranks: number) =>
    until(() => (said.output.match(/ of \d+, local/g) ?? []).length === ranks);

  test('the ranks of all hosts are one ring, with the folder and the environment of the launcher', async () => {
    const { said, ended } = run('-H', 'a:2,b:1', 'train.js');
    await ended;
    expect(said.output).not.toMatch(/^gradring: /m);
    expect(said.output.trim().split('\n').sort()).toEqual([
      `[a 0] 0 of 3, local 0, sum 3, ${folder}, green`,
      `[a 1] 1 of 3, local 1, sum 3, ${folder}, green`,
      `[b 2] 2 of 3, local 0, sum 3, ${folder}, green`,
    ]);
    await untilNoneIsLeft();
  }, 60_000);

  test('told to stop by a signal to the launcher, the ranks of all hosts save, and resume there', async () => {
    let savedAt = '0';
    for (const signal of ['SIGTERM', 'SIGUSR1'] as const) {
      const { child, said, ended } = run('-H', 'a:1,b:1', 'stopping.js');
      await until(() => (said.output.match(/ began at /g) ?? []).length === 2);
      child.kill(signal);
      expect(await ended).toBe(75);
      const began = said.output.match(/\d began at \d+/g)!.sort();
      expect(began).toEqual([`0 began at ${savedAt}`, `1 began at ${savedAt}`]);
      savedAt = /told to stop \(SIG\w+\)\. All ranks have saved at step (\d+)/.exec(said.output)![1]!;
    }
    await untilNoneIsLeft();
  }, 60_000);

  describeWith(['mpirun.openmpi', 'mpiexec.mpich'], 'MPI', () => {
    test.each([
      ['Open MPI', 'mpirun'],
      ['MPICH and Intel MPI', 'mpiexec'],
    ])(
      'the command of the documentation for several hosts works with %s',
      async (heading, program) => {
        const section = readPage('docs/clusters.md').split(`\n## ${heading}\n`)[1]!.split('\n## ')[0]!;
        const command = /^mpi\w+ -(?:H|hosts) .*$/m.exec(section)![0];
        const programs = mkdtempSync(path.join(folder, 'bin-'));
        const put = (name: string, line: string) =>
          writeFileSync(path.join(programs, name), `#!/bin/sh\nexec ${line} "$@"\n`, { mode: 0o755 });
        put('ssh', `${whereIs('ssh')} ${hosts.sshArgs}`); // as if the user had this configuration
        put('mpirun', 'mpirun.openmpi --allow-run-as-root');
        put('mpiexec', 'mpiexec.mpich');
        const env = { ...process.env, PATH: `${programs}:${process.env['PATH']}`, XDG_CONFIG_HOME: folder };
        const options = { cwd: folder, env, encoding: 'utf8', timeout: 50_000 } as const;
        const output = execFileSync(...hosts.on('a', `exec ${command}`), options);
        const ranks = output.match(/^\d of 4, local \d, sum 6/gm);
        expect({ program, ranks: ranks?.sort() }).toEqual({
          program,
          ranks: [0, 1, 2, 3].map(rank => `${rank} of 4, local ${rank % 2}, sum 6`),
        });
      },
      60_000,
    );
  });

  test('the command of the documentation works as it stands', async () => {
    const programs = path.join(folder, 'bin');
    mkdirSync(programs);
    const ssh = `#!/bin/sh\nexec ${whereIs('ssh')} ${hosts.sshArgs} "$@"\n`; // as if the user had this configuration
    writeFileSync(path.join(programs, 'ssh'), ssh, { mode: 0o755 });
    writeFileSync(path.join(programs, 'npx'), `#!/bin/sh\nshift\nexec ${CLI} "$@"\n`, { mode: 0o755 });
    const [, command] = /^## ssh\n\n```sh\n(.*?)^```$/ms.exec(readPage('docs/clusters.md'))!;
    const env = { ...process.env, PATH: `${programs}:${process.env['PATH']}` };
    const output = execFileSync('bash', ['-c', command!], { cwd: folder, env, encoding: 'utf8' });
    const ranks = output.match(/^\[\w \d\] \d of 4, local \d, sum 6/gm);
    expect(ranks?.sort()).toEqual(
      [['a', 0, 0], ['a', 1, 1], ['b', 2, 0], ['b', 3, 1]].map(
        ([host, rank, local]) => `[${host} ${rank}] ${rank} of 4, local ${local}, sum 6`,
      ),
    ); // prettier-ignore
  }, 60_000);

  test('hosts may be in a file, and this host may be one of them', async () => {
    const file = path.join(folder, 'hosts');
    writeFileSync(file, '# two hosts\na slots=1\nlocalhost:1\n');
    const { said, ended } = run('--hostfile', file, 'train.js');
    expect({ code: await ended, ...said }).toMatchObject({
      code: 0,
      output: expect.stringMatching(/^\[localhost 1\] 1/m),
    });
  }, 60_000);

  test('the run token is on no command line', async () => {
    const { child, said, ended } = run('-H', 'a,b', 'train.js', 'stay');
    await untilAllRun(said, 2);
    const lines = execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' });
    expect(lines).toMatch(/\bssh\b.* a exec sh -c/);
    expect(lines).not.toMatch(/[0-9a-f]{64}/);
    child.kill('SIGINT');
    await ended;
    await untilNoneIsLeft();
  }, 60_000);

  test('what a host lacks is told before anything starts', async () => {
    const { said, ended } = run('-H', 'a,other,newer,broken,nowhere.invalid', 'train.js');
    expect(await ended).toBe(1);
    expect(said.output).toMatch(/^gradring: ERR_RANK_FAILED: No rank was started\.\n/);
    expect(said.output).toContain(`  other has another ${script} than this host\n`);
    expect(said.output).toMatch(/^ {2}newer has gradring 9\.9\.9; this host has [\d.]+$/m);
    expect(said.output).toMatch(/^ {2}broken: ssh ended with code 1/m);
    expect(said.output).toMatch(/^ {2}nowhere\.invalid: ssh ended with code 255: .*Could not resolve hostname/m);
    expect(said.output).not.toMatch(/^ {2}a\b/m);
    await untilNoneIsLeft();
  }, 60_000);

  test('when a rank fails, the others are ended on all hosts, and its error is told', async () => {
    const { said, ended } = run('-H', 'a:2,b:1', 'train.js', 'fail');
    expect(await ended).toBe(1);
    expect(said.output).toMatch(/^gradring: rank 2 \(on b, pid \d+\) failed with exit code 1 .*root cause/m);
    expect(said.output).toMatch(/^ {4}Error: as it was told$/m);
    await untilNoneIsLeft();
  }, 60_000);

  test('one Ctrl-C ends all on all hosts', async () => {
    const { child, said, ended } = run('-H', 'a:2,b:2', 'train.js', 'stay');
    await untilAllRun(said, 4);
    child.kill('SIGINT');
    expect(await ended).toBe(130);
    expect(said.output).toMatch(/^gradring: SIGINT was passed on to the ranks, which ended: rank 0 SIGINT, /m);
    await untilNoneIsLeft();
  }, 60_000);

  test('nothing is left on any host when the launcher is killed', async () => {
    const { child, said, ended } = run('-H', 'a:2,b:2', 'train.js', 'stay');
    await untilAllRun(said, 4);
    expect(left()).toHaveLength(6); // and two agents
    child.kill('SIGKILL');
    await ended;
    await untilNoneIsLeft();
  }, 60_000);

  test('a connection that ssh keeps for the next run does not hold up the end of this one', async () => {
    const shared = `${hosts.sshArgs} -oControlPath=${folder}/%n -oControlMaster=auto -oControlPersist=yes`;
    const { said, ended } = run(`--ssh-args=${shared}`, '-H', 'a,b', 'train.js');
    expect({ code: await ended, ...said }).toMatchObject({
      code: 0,
      output: expect.not.stringContaining('gradring: '),
    });
    await untilNoneIsLeft();
    for (const host of ['a', 'b']) execFileSync('ssh', [...shared.split(' '), '-O', 'exit', host], { stdio: 'ignore' });
  }, 60_000);

  test('a host that is cut off is told, the others are ended, and later its own ranks, too', async () => {
    const shortSilence = path.join(__dirname, 'support/short-silence.js');
    const { said, ended } = runWith(['--require', shortSilence], '-H', 'a,b,c', 'train.js', 'stay');
    await untilAllRun(said, 3);
    hosts.cut('c');
    expect(await ended).toBe(137);
    expect(said.output).toMatch(/^gradring: the connection to c is lost: ssh ended with code 255\b/m);
    expect(said.output).toMatch(
      /^gradring: rank 2 \(on c, pid \d+\) was lost with the connection to its host after [1-9]\d*\.\d s; root cause\. The other ranks: rank 0 SIGTERM, rank 1 SIGTERM\.$/m,
    );
    await until(() => left().length <= 2); // at most the agent of c and its rank, which may have ended, too
    await untilNoneIsLeft(); // the agent hears nothing any more
  }, 120_000);
});
