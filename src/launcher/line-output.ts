import type { Writable } from 'node:stream';

/**
 * A place where lines of several ranks go: the terminal, or a log. Each write has whole lines, so they never mix.
 *
 * If an output breaks (`| head`, a full disk), the ranks continue, because hours of work are worth more than the
 * output. What is written from then on is dropped.
 */
export class LineOutput {
  private lost = false;
  private drained: Promise<void> | undefined;

  /** @param onLost Called once, if the stream breaks. */
  constructor(
    private readonly stream: NodeJS.WritableStream,
    private readonly onLost: (error: Error) => void = () => {},
  ) {
    stream.on('error', this.lose);
  }

  /** Writes the lines, and resolves when the stream wants more. Every line gets the prefix. */
  async write(lines: readonly string[], prefix = ''): Promise<void> {
    if (this.lost || this.isDestroyed() || lines.length === 0) return;
    if (this.stream.write(lines.map(line => `${prefix}${line}\n`).join(''))) return;
    // All ranks that write here wait for the same event; a listener each would be too many.
    this.drained ??= new Promise(resolve => {
      const resume = (): void => {
        this.stream.off('drain', resume).off('error', resume).off('close', resume);
        this.drained = undefined;
        resolve();
      };
      this.stream.on('drain', resume).on('error', resume).on('close', resume);
    });
    await this.drained;
  }

  /** Resolves when the stream has taken all that was written, and leaves it open. Do not write afterwards. */
  async release(): Promise<void> {
    if (!this.lost && !this.isDestroyed()) await new Promise<void>(resolve => this.stream.write('', () => resolve()));
    this.stream.off('error', this.lose);
  }

  /** Ends the stream, and resolves when it is closed. */
  async close(): Promise<void> {
    if (!this.lost && !this.isDestroyed()) await new Promise<void>(resolve => this.stream.on('close', resolve).end());
  }

  /** A stream that was destroyed without an error takes nothing, and never says that it wants more. */
  private isDestroyed(): boolean {
    return (this.stream as Partial<Writable>).destroyed === true;
  }

  private readonly lose = (error: Error): void => {
    if (this.lost) return;
    this.lost = true;
    this.onLost(error);
  };
}
