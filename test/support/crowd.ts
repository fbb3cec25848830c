import { spawn } from 'node:child_process';

/** Many connections at once to one port, from a process of their own, which say nothing. */
export class Crowd {
  private readonly child;
  private readonly ended: Promise<unknown>;
  /** Settles when all are connected, with 'all', or at the first that is not, with why. */
  readonly come: Promise<string>;

  constructor(port: number, count: number, host = '127.0.0.1') {
    const source = `
      const { connect } = require('node:net');
      let connected = 0;
      const next = left => left > 0 && connect({ port: ${port}, host: '${host}' }, () => {
        if (++connected === ${count}) console.log('all');
        next(left - 50);
      }).on('error', error => { console.log(error.code); process.exit(1); });
      for (let i = 0; i < 50; i++) next(${count} - i);`;
    this.child = spawn(process.execPath, ['-e', source], { stdio: ['ignore', 'pipe', 'inherit'] });
    this.ended = new Promise(resolve => this.child.once('close', resolve));
    this.come = new Promise(resolve => this.child.stdout.once('data', bytes => resolve(String(bytes).trim())));
  }

  /** All at once, and settles when they are gone. */
  async leave(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.ended;
  }
}
