import type { Readable } from 'node:stream';
import { LineSplitter } from './line-splitter';

/** How long a pipe may be silent after its rank has ended, before the relay gives it up. */
const SILENCE_MS = 1_000;

/** Delivers the lines of one pipe, no faster than they are taken. */
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
   * Says that the rank has ended. Its pipe ends, too, unless a process that it left behind still has the other end. All
   * that the rank itself wrote can be read already, so a silent pipe has no more of it.
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
      // Given up, or broken: nothing more will come.
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
