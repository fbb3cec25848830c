import { Writable } from 'node:stream';

/**
 * Shows on standard error what is measured now, on one line that is overwritten each time. It shows nothing if that is
 * no terminal, so that logs and pipes stay clean.
 */
export class Progress {
  constructor(private readonly output: NodeJS.WriteStream = process.stderr) {}

  show(text: string): void {
    if (this.output.isTTY) this.output.write(`\r\x1b[2K${text.slice(0, this.output.columns - 1)}`);
  }

  /** A stream to standard error. It clears the line first, so that messages do not mix with it. */
  stderr(): Writable {
    return new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        this.clear();
        process.stderr.write(chunk, () => done());
      },
    });
  }

  /** Removes the line, before anything else is written to the terminal. */
  clear(): void {
    if (this.output.isTTY) this.output.write('\r\x1b[2K');
  }
}
