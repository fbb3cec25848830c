import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { commandsIn, readPage } from '../support/doc-pages';
import { describeWith } from './support/programs';
import { SlurmCluster } from './support/slurm';
import { whoProgram } from './support/who';

const ROOT = path.join(__dirname, '../..');

let project: string;
/** For all commands: as root, with more processes than cores. A bare `salloc` starts `$SHELL`, which CI lacks. */
const env: NodeJS.ProcessEnv = {
  ...process.env,
  SHELL: '/bin/bash',
  ...{ OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1', OMPI_MCA_rmaps_base_oversubscribe: '1' },
};
beforeAll(() => {
  project = mkdtempSync(path.join(tmpdir(), 'gradring-clusters-'));
  mkdirSync(path.join(project, 'node_modules/.bin'), { recursive: true });
  symlinkSync(ROOT, path.join(project, 'node_modules/gradring'), 'dir');
  symlinkSync(path.join(ROOT, 'dist/cli.js'), path.join(project, 'node_modules/.bin/gradring'));
  writeFileSync(path.join(project, 'train.js'), whoProgram('gradring/core', 1));
  env['XDG_CONFIG_HOME'] = path.join(project, 'config');
});
afterAll(() => rmSync(project, { recursive: true }));

/** How a command of the shell ended. */
function shell(
  command: string,
  more: NodeJS.ProcessEnv = {},
  seconds = 110,
): Promise<{ code: number; output: string }> {
  return new Promise(resolve => {
    const options = { cwd: project, env: { ...env, ...more } };
    const args = ['--kill-after=5', String(seconds), 'bash', '-c', command]; // with all that the command has started
    const child = execFile('timeout', args, options, (_, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, output: stdout + stderr }),
    );
  });
}

/** The commands of a section of docs/clusters.md, but for those that name several hosts (see ssh.test.ts). */
function documented(heading: string): string[] {
  const commands = commandsIn('docs/clusters.md', heading).filter(block => !/ -(H|hosts) /.test(block));
  expect(commands.length).toBeGreaterThan(0);
  return commands;
}

/** Trains until it is told to stop, and after that a little more. */
const REQUEUED = `
const { connect, loadBackend } = require('gradring');
(async () => {
  const { tf } = await loadBackend({ backend: 'cpu' });
  const ring = await connect();
  const w = tf.variable(tf.zeros([10]), true, 'w');
  const optimizer = ring.wrap(tf.train.sgd(0.1));
  const checkpoint = ring.checkpoint({ variables: [w], optimizer }, { dir: 'requeued' });
  const { step } = await checkpoint.resume();
  const isRequeued = process.env.SLURM_RESTART_COUNT !== undefined;
  // If the test fails, its processes may outlive it: not for long.
  for (let taken = 0; isRequeued ? taken < 3 : performance.now() < 90_000; taken++) {
    await optimizer.minimizeAsync(() => w.sub(ring.rank).square().mean());
    await checkpoint.afterStep();
    if (taken === 0) console.log('rank ' + ring.rank + ' of ' + ring.worldSize + ' began at ' + step);
    await new Promise(resolve => setTimeout(resolve, 100)); // other tests need the processors
  }
  await ring.close();
  console.log('all is done');
})();
`;

const ranksIn = (output: string) => (output.match(/rank \d+ of \d+, sum \d+/g) ?? []).sort();
const ONE_RING_OF_2 = ['rank 0 of 2, sum 1', 'rank 1 of 2, sum 1'];
const ONE_RING_OF_4 = [0, 1, 2, 3].map(rank => `rank ${rank} of 4, sum 6`);

describeWith(['mpirun.openmpi'], 'Open MPI', () => {
  test('the command of the documentation is one ring', async () => {
    for (const command of documented('Open MPI')) {
      const { code, output } = await shell(command);
      expect({ output, ranks: ranksIn(output), code }).toEqual({ output, ranks: ONE_RING_OF_2, code: 0 });
    }
  });

  test('two runs at once do not meet', async () => {
    const runs = await Promise.all([1, 2].map(() => shell('mpirun -n 2 node train.js')));
    for (const { output } of runs) expect(ranksIn(output)).toEqual(ONE_RING_OF_2);
  });
});

describeWith(['mpiexec.mpich'], 'MPICH', () => {
  test('two runs at once do not meet', async () => {
    const runs = await Promise.all([1, 2].map(() => shell('mpiexec.mpich -n 2 node train.js')));
    for (const { output } of runs) expect(ranksIn(output)).toEqual(ONE_RING_OF_2);
  });

  test('the command of the documentation is one ring', async () => {
    const programs = path.join(project, 'mpich');
    mkdirSync(programs);
    writeFileSync(path.join(programs, 'mpiexec'), `#!/bin/sh\nexec mpiexec.mpich "$@"\n`, { mode: 0o755 }); // Debian has Open MPI under this name
    for (const command of documented('MPICH and Intel MPI')) {
      const { code, output } = await shell(command, { PATH: `${programs}:${env['PATH']}` });
      expect({ output, ranks: ranksIn(output), code }).toEqual({ output, ranks: ONE_RING_OF_2, code: 0 });
    }
  });
});

// MPI is started within its jobs, too.
describeWith(['slurmctld', 'slurmd', 'srun', 'unshare', 'mpirun.openmpi', 'mpiexec.mpich'], 'Slurm', () => {
  /**
   * Waits for the last line of a batch script, and shows its output: `sbatch --wait` looks once in ten seconds or less
   * often. Fails if that line does not come.
   */
  const ENDED =
    'show() { for ((i = 0; i < 500; i++)); do grep -qsx END $1 && break; sleep 0.2; done; cat $1; grep -qsx END $1; }; show';

  const REQUEUES = [
    // Slurm looks at the limits twice a minute, and sends the signal with the last look before the time.
    { why: 'limit', options: '--time=1 --signal=USR1@1', afterItBegan: '' },
    { why: 'preempted', options: '', afterItBegan: 'scancel --signal=TERM $job' },
  ];

  /** Submits the fourth script of the documentation, and waits until the job was requeued and is done. */
  async function requeue({ why, options, afterItBegan }: (typeof REQUEUES)[0]) {
    const [, , , script] = documented('Slurm');
    writeFileSync(path.join(project, `${why}.sh`), script!.replace('train.js', `${why}.js`));
    writeFileSync(path.join(project, `${why}.js`), REQUEUED.replace("'requeued'", `'${why}'`));
    const command = `job=$(sbatch --parsable ${options} -o ${why}.log ${why}.sh)
      until grep -qs 'began at 0' ${why}.log; do sleep 0.2; done
      ${afterItBegan}
      until grep -qs 'all is done' ${why}.log; do sleep 0.2; done
      cat ${why}.log`;
    return { why, ...(await shell(command, cluster.env, 160)) };
  }

  let cluster: SlurmCluster;
  /** They wait most of the time, so they run beside the other tests. */
  let requeued: ReturnType<typeof requeue>[];
  beforeAll(async () => {
    cluster = await new SlurmCluster().start();
    requeued = REQUEUES.map(requeue);
  }, 60_000);
  afterAll(() => cluster.stop());

  test('the commands of the documentation are one ring each', async () => {
    const [tasks, launchers, script] = documented('Slurm'); // the fourth is requeued
    writeFileSync(path.join(project, 'job.sh'), `${script!.trimEnd()} && echo END\n`);
    for (const command of [tasks!, launchers!, `sbatch -Q -o job.log job.sh; ${ENDED} job.log`]) {
      const { code, output } = await shell(command, cluster.env);
      expect({ output, ranks: ranksIn(output), code }).toEqual({ output, ranks: ONE_RING_OF_4, code: 0 });
    }
  }, 120_000);

  test('two steps at once do not meet', async () => {
    const both = 'srun -N2 --exact -n2 node train.js & srun -N2 --exact -n2 node train.js; wait';
    const { output } = await shell(`salloc -Q -N2 -n4 bash -c '${both}'`, cluster.env);
    expect(ranksIn(output)).toEqual([...ONE_RING_OF_2, ...ONE_RING_OF_2].sort());
  }, 120_000);

  test('in a batch script, a process that is no task does not train alone; tasks and mpirun are rings', async () => {
    const script = 'node train.js; srun node train.js; mpirun -n 2 node train.js; echo END';
    const { output } = await shell(`sbatch -Q -n2 -o batch.log --wrap '${script}'; ${ENDED} batch.log`, cluster.env);
    expect(output).toMatch(/^ERR_INVALID_ENVIRONMENT This job of Slurm has 2 tasks, but this process is none of them/m);
    expect(ranksIn(output)).toEqual([...ONE_RING_OF_2, ...ONE_RING_OF_2].sort());
  }, 120_000);

  test('neither are other processes of a job that are no task rings of one, and its tasks are a ring', async () => {
    const tasks = 'node train.js; srun node train.js; echo END';
    const commands = {
      'a script without a number of tasks': `sbatch -Q -N2 -o LOG --wrap 'npx gradring run -n 1 train.js; ${tasks}'`,
      'a script of a heterogeneous job': `echo $'#!/bin/bash\nnode train.js; srun --het-group=0,1 node train.js; echo END' > job; sbatch -Q -n1 -o LOG : -n1 job`,
      'a script that was submitted within a step': `srun -n1 bash -c 'sbatch -Q -n2 -o LOG --wrap "${tasks}"'`,
      // Its shell is a step of its own.
      salloc: `echo 'npx gradring run -n 1 train.js; ${tasks}' | salloc -Q -N2 -n2 > LOG 2>&1`,
    };
    const runs = Object.entries(commands).map(async ([who, command], i) => {
      const { output } = await shell(`${command.replace('LOG', `log${i}`)}; ${ENDED} log${i}`, cluster.env);
      expect({ who, output, ranks: ranksIn(output) }).toEqual({ who, output, ranks: ONE_RING_OF_2 });
      expect(output).toMatch(
        /^ERR_INVALID_ENVIRONMENT This job of Slurm has 2 tasks, but this process is none of them/m,
      );
      const hasLauncher = command.includes('gradring run');
      expect(/: This job of Slurm has 2 nodes, but this launcher is on one/.test(output)).toBe(hasLauncher);
    });
    await Promise.all(runs);
  }, 120_000);

  test.each([
    ['mpirun starts srun', 'mpirun.openmpi -n 1 srun -N2 -n2 node train.js', /^ERR_INVALID_ENVIRONMENT By Open MPI/gm],
    ['mpiexec starts srun', 'mpiexec.mpich -n 1 srun -N2 -n2 node train.js', /^ERR_INVALID_ENVIRONMENT By MPI/gm],
    ['RANK is set', 'RANK=0 srun -N2 npx gradring run -n 2 train.js', /ERR_INVALID_ENVIRONMENT: RANK is set/g],
    [
      'srun keeps the variables of the job',
      'salloc -Q -n1 srun -E -n2 -O node train.js',
      /^ERR_INVALID_ENVIRONMENT SLURM_STEP_TASKS_PER_NODE .* without --preserve-env/gm,
    ],
    ['each task is a study', 'srun -N2 npx gradring study --quick', /ENVIRONMENT: study starts its own ranks/g],
  ])(
    'there are not two rings if %s',
    async (_, command, error) => {
      const { output } = await shell(command, cluster.env);
      expect({ output, ranks: ranksIn(output), errors: output.match(error)?.length }).toEqual({
        output,
        ranks: [],
        errors: 2,
      });
    },
    120_000,
  );

  test('mpirun in the shell of salloc is one ring without the variable of Slurm, as documented', async () => {
    const [command] = /mpirun -n 2 env -u \S+ node train\.js/.exec(readPage('docs/clusters.md'))!;
    // The first node has three of the four tasks, so Open MPI starts both processes there.
    const inShell = (typed: string) => shell(`echo '${typed}' | salloc -Q -N2 -n4`, cluster.env);
    const { output } = await inShell(command);
    expect({ output, ranks: ranksIn(output) }).toEqual({ output, ranks: ONE_RING_OF_2 });
    expect((await inShell('mpirun -n 2 node train.js')).output).toContain("'env -u SLURM_PROCID'");
  }, 120_000);

  test('launchers with --nodes are one ring', async () => {
    const { output } = await shell('srun -N2 npx gradring run --nodes 2 -n 2 train.js', cluster.env);
    expect(ranksIn(output)).toEqual(ONE_RING_OF_4);
  }, 120_000);

  test('each of several tasks that RANK says is alone warns of it', async () => {
    const { output } = await shell('RANK=0 WORLD_SIZE=1 srun -N2 node train.js', cluster.env);
    expect(ranksIn(output)).toEqual(Array(2).fill('rank 0 of 1, sum 0'));
    expect(
      output.match(/GradringWarning: RANK=0 and WORLD_SIZE=1 are set, .* Slurm has started several/g),
    ).toHaveLength(2);
  }, 120_000);

  test('doctor says what the scheduler says', async () => {
    // To files: srun mixes and splits the long lines of its tasks.
    const command = `srun -N2 sh -c 'npx gradring doctor --json > doctor-$SLURM_PROCID.json'`;
    await shell(command, { ...cluster.env, GRADRING_BACKEND: 'cpu' });
    const places = [0, 1].map(task => {
      const text = readFileSync(path.join(project, `doctor-${task}.json`), 'utf8');
      const { findings } = JSON.parse(text) as { findings: { what: string; details: object }[] };
      return findings.find(({ what }) => what === 'Place')!.details;
    });
    for (const place of places) expect(place).toMatchObject({ scheduler: 'Slurm', worldSize: 2, masterAddr: 'n1' });

    const [documented] = /srun -l -N2 npx gradring doctor/.exec(readPage('docs/clusters.md'))!;
    const { output } = await shell(documented, { ...cluster.env, GRADRING_BACKEND: 'cpu' });
    for (const task of [0, 1]) expect(output).toMatch(new RegExp(`^${task}: .*rank ${task} of 2`, 'm'));
  }, 120_000);

  test('jobs that come to their time limit, or get SIGTERM, save, are requeued, and resume where they stopped', async () => {
    for (const { why, output } of await Promise.all(requeued)) {
      const [, saved] = /All ranks have saved at step (\d+) \(/.exec(output) ?? [];
      const began = [...output.matchAll(/rank (\d) of 4 began at (\d+)/g)].map(([, rank, step]) => [step, rank]).sort();
      const runs = ['0', saved].map(step => ['0', '1', '2', '3'].map(rank => [step, rank]));
      expect({ why, output, began }).toEqual({ why, output, began: runs.flat() });
    }
  }, 170_000);
});
