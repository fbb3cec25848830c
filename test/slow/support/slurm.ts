import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePort } from '../../support/rings';

const run = promisify(execFile);

/**
 * A Slurm cluster of two nodes, `n1` and `n2`, on this machine: one controller and two `slurmd`. Their tasks see an
 * /etc/hosts with these names.
 */
export class SlurmCluster {
  private readonly folder = mkdtempSync(path.join(tmpdir(), 'gradring-slurm-'));
  private readonly daemons: ChildProcess[] = [];
  readonly env: NodeJS.ProcessEnv = { ...process.env, SLURM_CONF: path.join(this.folder, 'slurm.conf') };

  async start(): Promise<this> {
    const ports = await Promise.all([freePort(), freePort(), freePort()]);
    const in_ = (name: string) => path.join(this.folder, name);
    for (const name of ['state', 'spool-n1', 'spool-n2']) mkdirSync(in_(name));
    writeFileSync(in_('hosts'), `${readFileSync('/etc/hosts', 'utf8')}\n127.0.0.1 n1 n2\n`);
    writeFileSync(this.env['SLURM_CONF']!, configuration(in_, ports));
    this.daemon('slurmctld', '-D');
    for (const node of ['n1', 'n2']) {
      const mount = 'mount --bind "$0" /etc/hosts && exec slurmd -D -N "$1"';
      this.daemon('unshare', '--mount', 'sh', '-c', mount, in_('hosts'), node);
    }
    for (;;) {
      const { stdout } = await run('sinfo', ['-h', '-N', '-o', '%T'], { env: this.env }).catch(() => ({ stdout: '' }));
      if (stdout === 'idle\nidle\n') return this;
      if (this.daemons.some(({ exitCode }) => exitCode !== null)) throw new Error(this.logs());
      await sleep(200);
    }
  }

  async stop(): Promise<void> {
    const ended = this.daemons.map(daemon => new Promise(resolve => daemon.once('exit', resolve)));
    for (const daemon of this.daemons) daemon.kill('SIGKILL'); // a slurmd may wait long for what it has started
    await Promise.all(ended);
    rmSync(this.folder, { recursive: true });
  }

  private daemon(command: string, ...args: string[]): void {
    this.daemons.push(spawn(command, args, { env: this.env, stdio: 'ignore' }));
  }

  private logs(): string {
    return ['ctld.log', 'n1.log', 'n2.log'].map(name => readFileSync(path.join(this.folder, name), 'utf8')).join('\n');
  }
}

function configuration(in_: (name: string) => string, [control, n1, n2]: readonly number[]): string {
  const nodes = [
    ['n1', n1],
    ['n2', n2],
  ].map(([name, port]) => `NodeName=${name} NodeHostname=${hostname()} NodeAddr=127.0.0.1 Port=${port} CPUs=16`);
  return `${[
    'ClusterName=gradring',
    `SlurmctldHost=${hostname()}(127.0.0.1)`,
    `SlurmctldPort=${control}`,
    'SlurmUser=root',
    'AuthType=auth/none',
    'CredType=cred/none',
    // A job that is requeued waits until the credentials of its first run have expired: 120 s if nothing else is said.
    'AuthInfo=cred_expire=5',
    'ProctrackType=proctrack/linuxproc',
    'TaskPlugin=task/none',
    'SelectType=select/cons_res',
    'SelectTypeParameters=CR_CPU',
    // Only the backfill scheduler starts heterogeneous jobs, and it looks once in 30 s if nothing else is said.
    'SchedulerParameters=bf_interval=1',
    'SlurmdParameters=config_overrides',
    'MpiDefault=none',
    'LaunchParameters=use_interactive_step',
    `StateSaveLocation=${in_('state')}`,
    `SlurmdSpoolDir=${in_('spool-%n')}`,
    `SlurmctldPidFile=${in_('ctld.pid')}`,
    `SlurmdPidFile=${in_('%n.pid')}`,
    `SlurmctldLogFile=${in_('ctld.log')}`,
    `SlurmdLogFile=${in_('%n.log')}`,
    ...nodes,
    'PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP',
  ].join('\n')}\n`;
}
