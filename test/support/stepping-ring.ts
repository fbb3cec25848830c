import { appendFileSync, existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { sleep } from './rings';

/**
 * Three ranks, processes of their own, that make one checked step after the other until they are told to stop. They are
 * told through files of a folder, and tell so too, wherever they run.
 */
export class SteppingRing {
  constructor(
    private readonly folder: string,
    /** Settles when some rank has ended, with what there is to say of it. */
    private readonly ended: Promise<unknown>,
  ) {}

  /**
   * The program of a rank: the body of an async function that finds `Communicator`, `say` and `sleep`. Rank 2 waits to
   * be let {@link go}.
   *
   * @param options What to connect with.
   */
  static program(folder: string, options: object): string {
    return `
      const fs = require('node:fs');
      const has = name => fs.existsSync(${JSON.stringify(folder)} + '/' + name);
      const steps = fs.openSync(${JSON.stringify(folder)} + '/steps-' + process.env.RANK, 'a'); // later there may be no descriptor left
      while (process.env.RANK === '2' && !has('go')) await sleep(20);
      const ring = await Communicator.connect(${JSON.stringify(options)});
      say('rank ' + ring.rank + ' ready ' + process.pid);
      for (;;) {
        const [sum, stop] = await ring.allReduce(Int32Array.of(ring.rank + 1, has('stop') ? 1 : 0));
        if (sum !== 6) throw new Error('The sum is ' + sum);
        fs.writeSync(steps, '.');
        if (stop > 0) break;
        await sleep(2);
      }
      await ring.close();`;
  }

  go(): void {
    this.tell('go');
  }

  stop(): void {
    this.tell('stop');
  }

  /** Settles when every rank has made so many steps more, each with the right sum. */
  async makeSteps(count = 30): Promise<void> {
    const before = this.steps();
    let end: unknown;
    void this.ended.then(value => (end = value));
    while (this.steps() < before + count) {
      if (end !== undefined) throw new Error(`A rank has ended: ${JSON.stringify(end)}`);
      await sleep(10);
    }
  }

  private tell(word: string): void {
    appendFileSync(path.join(this.folder, word), '');
  }

  /** Of the rank that made fewest. */
  private steps(): number {
    const files = [0, 1, 2].map(rank => path.join(this.folder, `steps-${rank}`));
    return Math.min(...files.map(file => (existsSync(file) ? statSync(file).size : 0)));
  }
}
