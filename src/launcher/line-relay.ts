import type { Readable } from 'node:stream';
import { LineSplitter } from './line-splitter';

/** How long a pipe may stay silent after its rank has ended, before it is given up. */
const SILENCE_MS = 1_000;

/** Carries the lines of one pipe to where they are wanted, no faster than they are taken there. */
export class LineRelay {
  /** Resolves when the pipe has ended, or was given up, and all its lines were delivered. Never rejects. */
  readonly done: Promise<void>;
  private delivering = false;
  private finished = false;
  private silence: NodeJS.Timeout | undefined;

  constructor(
    private readonly source: Readable,
    private readonly deliver: (lines: string[]) => Promise<void>,
  ) {
    this.done = this.run();
  }

  /**
   * Says that the rank has ended. Its pipe ends with it, unless a process that it left behind still holds the other
   * end; what the rank itself wrote is there to be read, so a silent pipe has nothing more of it.
   */
  sourceEnded(): void {
    if (this.finished) return;
    this.silence = setTimeout(() => {
      if (this.delivering) this.silence?.refresh();
      else this.source.destroy();
    }, SILENCE_MS);
  }

  private async run(): Promise<void> {
    const splitter = new LineSplitter();
    try {
      for await (const chunk of this.source) await this.pass(splitter.push(chunk as Buffer));
    } catch {
      // Given up, or broken: either way nothing more will come.
    }
    await this.pass(splitter.end());
    this.finished = true;
    clearTimeout(this.silence);
  }

  private async pass(lines: string[]): Promise<void> {
    this.silence?.refresh();
    this.delivering = true;
    await this.deliver(lines);
    this.delivering = false;
  }
}
