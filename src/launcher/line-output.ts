import type { Writable } from 'node:stream';
import { REPLACEABLE } from '../status-line';

/** The line at the bottom of a terminal, which all outputs that go there have in common. */
export class StatusLine {
  private shown: { readonly prefix: string; readonly line: string } | undefined;

  /** What to write for these lines of the one with that prefix: they replace what it had shown. */
  textFor(lines: readonly string[], prefix: string): string {
    const erased = this.shown === undefined ? '' : `\r${REPLACEABLE}`;
    const last = lines.at(-1)!;
    if (last.startsWith(REPLACEABLE)) this.shown = { prefix, line: last.slice(REPLACEABLE.length) };
    else if (this.shown?.prefix === prefix) this.shown = undefined;
    const below = this.shown === undefined ? '' : `${this.shown.prefix}${this.shown.line}`;
    return `${erased}${textOf(withoutReplaceable(lines), prefix)}${below}`;
  }

  /** What to write when nothing follows. */
  end(): string {
    const erased = this.shown === undefined ? '' : `\r${REPLACEABLE}`;
    this.shown = undefined;
    return erased;
  }
}

/** The lines that stay. */
export function withoutReplaceable(lines: readonly string[]): string[] {
  return lines.filter(line => !line.startsWith(REPLACEABLE));
}

function textOf(lines: readonly string[], prefix: string): string {
  return lines.map(line => `${prefix}${line}\n`).join('');
}

/**
 * A place where lines of several ranks go: the terminal, or a log. Each write has whole lines, so they never mix.
 *
 * If an output breaks (`| head`, a full disk), the ranks continue, because hours of work are worth more than the
 * output. What is written from then on is dropped.
 */
export class LineOutput {
  private lost = false;
  private drained: Promise<void> | undefined;

  /**
   * @param onLost Called once, if the stream breaks.
   * @param status Of a terminal.
   */
  constructor(
    private readonly stream: NodeJS.WritableStream,
    private readonly onLost: (error: Error) => void = () => {},
    private readonly status?: StatusLine,
  ) {
    stream.on('error', this.lose);
  }

  /** Writes the lines, and resolves when the stream wants more. Every line gets the prefix. */
  async write(lines: readonly string[], prefix = ''): Promise<void> {
    if (this.lost || this.isDestroyed() || lines.length === 0) return;
    if (this.stream.write(this.status?.textFor(lines, prefix) ?? textOf(lines, prefix))) return;
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
    if (!this.lost && !this.isDestroyed())
      await new Promise<void>(resolve => this.stream.write(this.status?.end() ?? '', () => resolve()));
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
