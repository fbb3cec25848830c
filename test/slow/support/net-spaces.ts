import { execFileSync } from 'node:child_process';
import { signalProcess } from '../../../src/launcher/signals';

/** Network namespaces behind one bridge, which this machine is at, too. */
export class NetSpaces {
  private readonly id = `gr${process.pid}`;
  private readonly bridge = `${this.id}br`;
  private readonly names: string[] = [];

  constructor(private readonly prefix: string) {
    ip('link', 'add', this.bridge, 'type', 'bridge');
    ip('addr', 'add', `${prefix}.254/24`, 'dev', this.bridge);
    ip('link', 'set', this.bridge, 'up');
  }

  /** Adds a namespace. Returns its address. */
  add(name: string): string {
    const address = `${this.prefix}.${this.names.push(name)}`;
    ip('netns', 'add', this.spaceOf(name));
    ip('link', 'add', this.vethOf(name), 'type', 'veth', 'peer', 'name', 'eth0', 'netns', this.spaceOf(name));
    ip('link', 'set', this.vethOf(name), 'master', this.bridge, 'up');
    for (const words of [
      ['addr', 'add', `${address}/24`, 'dev', 'eth0'],
      ['link', 'set', 'eth0', 'up'],
      ['link', 'set', 'lo', 'up'],
    ]) {
      ip('-n', this.spaceOf(name), ...words);
    }
    return address;
  }

  /** The words before a command that runs there, as `ip` takes them. */
  within(name: string): string[] {
    return ['netns', 'exec', this.spaceOf(name)];
  }

  /** Cuts one off from the network. */
  cut(name: string): void {
    ip('link', 'set', this.vethOf(name), 'down');
  }

  /** Also kills what still runs there, such as the session of a host that was cut off. */
  remove(): void {
    for (const name of this.names) {
      const pids = ip('netns', 'pids', this.spaceOf(name)).split('\n').filter(Boolean);
      for (const pid of pids) signalProcess(Number(pid), 'SIGKILL');
      // The kernel removes a namespace, with its links, when it has time. The next one may have the same names.
      ip('link', 'del', this.vethOf(name));
      ip('netns', 'del', this.spaceOf(name));
    }
    ip('link', 'del', this.bridge);
  }

  private spaceOf(name: string): string {
    return `${this.id}-${name}`;
  }

  private vethOf(name: string): string {
    return `${this.id}${name}`;
  }
}

function ip(...words: string[]): string {
  return execFileSync('ip', words, { encoding: 'utf8' });
}
