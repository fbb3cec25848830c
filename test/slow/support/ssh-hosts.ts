import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** What a host has otherwise than this machine: `[file there, file here]`. */
type Mounts = readonly (readonly [string, string])[];

/**
 * Hosts for `ssh`, on this machine: each is a network namespace with an sshd, behind one bridge. They share all files,
 * but for those that are mounted.
 */
export class SshHosts {
  private readonly folder = mkdtempSync(path.join(tmpdir(), 'gradring-ssh-'));
  private readonly id = `gr${process.pid}`;
  private readonly bridge = `${this.id}br`;
  private readonly daemons: ChildProcess[] = [];
  private readonly spaces: string[] = [];

  /** Of the names of the hosts, in `gradring run --ssh-args`. */
  readonly sshArgs = `-F ${path.join(this.folder, 'config')}`;

  async start(hosts: Readonly<Record<string, Mounts>>): Promise<this> {
    for (const key of ['host', 'user']) {
      execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', path.join(this.folder, key)]);
    }
    mkdirSync('/run/sshd', { recursive: true });
    ip('link', 'add', this.bridge, 'type', 'bridge');
    ip('addr', 'add', '10.211.7.254/24', 'dev', this.bridge);
    ip('link', 'set', this.bridge, 'up');
    const names = Object.keys(hosts);
    writeFileSync(
      path.join(this.folder, 'config'),
      names.map((name, i) => this.configOf(name, addressOf(i))).join('\n'),
    );
    for (const [i, name] of names.entries()) await this.add(name, addressOf(i), hosts[name]!);
    return this;
  }

  stop(): void {
    for (const daemon of this.daemons) daemon.kill('SIGKILL');
    for (const space of this.spaces) ip('netns', 'del', space);
    ip('link', 'del', this.bridge);
    rmSync(this.folder, { recursive: true });
  }

  /** Cuts a host off from the network. */
  cut(name: string): void {
    ip('link', 'set', this.vethOf(name), 'down');
  }

  private vethOf(name: string): string {
    return `${this.id}${name}`;
  }

  private async add(name: string, address: string, mounts: Mounts): Promise<void> {
    const space = `${this.id}-${name}`;
    ip('netns', 'add', space);
    this.spaces.push(space);
    ip('link', 'add', this.vethOf(name), 'type', 'veth', 'peer', 'name', 'eth0', 'netns', space);
    ip('link', 'set', this.vethOf(name), 'master', this.bridge, 'up');
    for (const words of [
      ['addr', 'add', `${address}/24`, 'dev', 'eth0'],
      ['link', 'set', 'eth0', 'up'],
      ['link', 'set', 'lo', 'up'],
    ]) {
      ip('-n', space, ...words);
    }
    const file = path.join(this.folder, `sshd-${name}`);
    writeFileSync(
      file,
      `HostKey ${this.folder}/host\nAuthorizedKeysFile ${this.folder}/user.pub\nStrictModes no\nPermitRootLogin yes\nUsePAM no\nPidFile none\n`,
    );
    const mount = mounts.map(([there, here]) => `mount --bind '${here}' '${there}' && `).join('');
    const command = `${mount} exec $(command -v sshd) -D -e -f ${file}`;
    this.daemons.push(
      spawn('ip', ['netns', 'exec', space, 'unshare', '--mount', 'sh', '-c', command], { stdio: 'ignore' }),
    );
    while (!(await answers(address))) await sleep(50);
  }

  private configOf(name: string, address: string): string {
    return [
      `Host ${name}`,
      `HostName ${address}`,
      `IdentityFile ${this.folder}/user`,
      'IdentitiesOnly yes',
      'StrictHostKeyChecking no',
      'UserKnownHostsFile /dev/null',
      'LogLevel ERROR',
      '',
    ].join('\n  ');
  }
}

const addressOf = (i: number) => `10.211.7.${i + 1}`;

function ip(...words: string[]): void {
  execFileSync('ip', words);
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
