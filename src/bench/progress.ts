/**
 * Says on standard error what long work is about, on one line that each word overwrites; nothing where that is no
 * terminal, so that logs and pipes stay clean.
 */
export class Progress {
  constructor(private readonly output: NodeJS.WriteStream = process.stderr) {}

  show(text: string): void {
    if (this.output.isTTY) this.output.write(`\r\x1b[2K${text.slice(0, this.output.columns - 1)}`);
  }

  /** Takes the line away, before anything else is written to the terminal. */
  clear(): void {
    if (this.output.isTTY) this.output.write('\r\x1b[2K');
  }
}
