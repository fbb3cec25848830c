import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** How a command ended. */
export interface Ended {
  readonly code: number;
  /** What it wrote, also on stderr. */
  readonly output: string;
}

const folder = mkdtempSync(path.join(tmpdir(), 'gradring-hosts-'));
const hosts: Host[] = [];

/** A host: a network namespace of this machine, until {@link removeHosts}. */
export class Host {
  private readonly namespace = `grt-${process.pid}-${hosts.length}`;
  private readonly names = path.join(folder, `${this.namespace}.hosts`);

  constructor() {
    hosts.push(this);
    execFileSync('ip', ['netns', 'add', this.namespace]);
    this.ip('link', 'set', 'lo', 'up');
    this.setNames('');
  }

  /** Connects two hosts by a cable. Each end is an interface and its addresses: `eth0 10.0.0.1/24`. */
  static connect(a: Host, endA: string, b: Host, endB: string): void {
    const [interfaceA, interfaceB] = [endA, endB].map(end => end.split(' ')[0]!);
    const peer = ['peer', 'name', interfaceB!, 'netns', b.namespace];
    execFileSync('ip', ['link', 'add', interfaceA!, 'netns', a.namespace, 'type', 'veth', ...peer]);
    a.plugIn(endA);
    b.plugIn(endB);
  }

  ip(...args: string[]): void {
    execFileSync('ip', ['-n', this.namespace, ...args]);
  }

  /** Its /etc/hosts, beside localhost. */
  setNames(lines: string): void {
    writeFileSync(this.names, `127.0.0.1 localhost\n${lines}\n`);
  }

  /** Sets the firewall, in the language of nftables. */
  setFirewall(rules: string): void {
    const input = `flush ruleset\n${rules}\n`;
    execFileSync('ip', ['netns', 'exec', this.namespace, 'nft', '-f', '-'], { input });
  }

  /** Runs a command there, for at most a minute. */
  async run(command: readonly string[], env: NodeJS.ProcessEnv = {}, cwd = folder): Promise<Ended> {
    // ip has made a mount namespace, too.
    const inHost = ['sh', '-c', 'mount --bind "$0" /etc/hosts && exec "$@"', this.names, ...command];
    return new Promise(resolve => {
      const options = { cwd, env: { ...process.env, ...env }, timeout: 60_000 };
      const child = execFile('ip', ['netns', 'exec', this.namespace, ...inHost], options, (_, stdout, stderr) =>
        resolve({ code: child.exitCode ?? -1, output: stdout + stderr }),
      );
    });
  }

  remove(): void {
    execFileSync('ip', ['netns', 'delete', this.namespace]);
  }

  private plugIn(end: string): void {
    const [name, ...addresses] = end.split(' ');
    for (const address of addresses) {
      this.ip('address', 'add', address, 'dev', name!, ...(address.includes(':') ? ['nodad'] : []));
    }
    this.ip('link', 'set', name!, 'up');
  }
}

export function removeHosts(): void {
  for (const host of hosts.splice(0)) host.remove();
  rmSync(folder, { recursive: true, force: true });
}
