import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { NetSpaces } from './net-spaces';

/** What a host has otherwise than this machine: `[file there, file here]`. */
type Mounts = readonly (readonly [string, string])[];

/**
 * Hosts for `ssh`, on this machine: each is a network namespace with an sshd, behind one bridge. They share all files,
 * but for those that are mounted.
 */
export class SshHosts {
  private readonly folder = mkdtempSync(path.join(tmpdir(), 'gradring-ssh-'));
  private readonly daemons: ChildProcess[] = [];
  private readonly spaces = new NetSpaces('10.211.7');

  /** The /etc/hosts of all of them. */
  private readonly names = path.join(this.folder, 'hosts');

  /** By the names of the hosts, in the order in which they were added. */
  readonly addresses: Record<string, string> = {};

  /** Of the names and addresses of the hosts, in `gradring run --ssh-args`. */
  readonly sshArgs = `-F ${path.join(this.folder, 'config')}`;

  async start(hosts: Readonly<Record<string, Mounts>>): Promise<this> {
    for (const key of ['host', 'user']) {
      execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', path.join(this.folder, key)]);
    }
    mkdirSync('/run/sshd', { recursive: true });
    writeFileSync(this.names, '127.0.0.1 localhost\n');
    for (const [name, mounts] of Object.entries(hosts)) await this.add(name, mounts);
    return this;
  }

  stop(): void {
    for (const daemon of this.daemons) daemon.kill('SIGKILL');
    this.spaces.remove();
    rmSync(this.folder, { recursive: true });
  }

  /** Cuts a host off from the network. */
  cut(name: string): void {
    this.spaces.cut(name);
  }

  /** A command line that runs a shell's command on a host. */
  on(name: string, command: string): [string, string[]] {
    const setUp = `mount --bind ${this.names} /etc/hosts && hostname ${name} && ${command}`;
    return ['ip', [...this.spaces.within(name), 'unshare', '--mount', '--uts', 'sh', '-c', setUp]];
  }

  private async add(name: string, mounts: Mounts): Promise<void> {
    const address = (this.addresses[name] = this.spaces.add(name));
    appendFileSync(this.names, `${address} ${name}\n`);
    appendFileSync(path.join(this.folder, 'config'), this.configOf(name, address));
    const file = path.join(this.folder, `sshd-${name}`);
    writeFileSync(
      file,
      `HostKey ${this.folder}/host\nAuthorizedKeysFile ${this.folder}/user.pub\nStrictModes no\nPermitRootLogin yes\nUsePAM no\nPidFile none\nAcceptEnv XDG_CONFIG_HOME\n`,
    );
    const mount = mounts.map(([there, here]) => `mount --bind '${here}' '${there}' && `).join('');
    const command = `${mount} exec $(command -v sshd) -D -e -f ${file}`;
    this.daemons.push(spawn(...this.on(name, command), { stdio: 'ignore' }));
    while (!(await answers(address))) await sleep(50);
  }

  private configOf(name: string, address: string): string {
    return [
      `Host ${name} ${address}`,
      `HostName ${address}`,
      `IdentityFile ${this.folder}/user`,
      'IdentitiesOnly yes',
      'StrictHostKeyChecking no',
      'UserKnownHostsFile /dev/null',
      'LogLevel ERROR',
      'SendEnv XDG_CONFIG_HOME', // as if the home directory were another
      '',
    ].join('\n  ');
  }
}

function answers(host: string): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect({ host, port: 22 })
      .on('connect', () => resolve(true))
      .on('error', () => resolve(false))
      .on('close', () => resolve(false));
    socket.on('connect', () => socket.destroy());
  });
}
