import { StringDecoder } from 'node:string_decoder';
import type { Readable } from 'node:stream';

/** How much of a line is kept until its end arrives: 64 Ki UTF-16 units. */
export const MAX_LINE_LENGTH = 65_536;

/**
 * Cuts a stream of UTF-8 bytes into whole lines, wherever its chunks end. `\n`, `\r\n` and `\r` each end a line,
 * because a progress bar that redraws itself with `\r` would otherwise overwrite what other ranks wrote. A line longer
 * than {@link MAX_LINE_LENGTH} is cut, so that a line without an end cannot fill the memory.
 */
export class LineSplitter {
  private readonly decoder = new StringDecoder('utf8');
  private partial = '';
  /** Whether the last chunk's last character was a `\r` that ended a line. Then a `\n` after it ends no other line. */
  private endedWithReturn = false;

  /** The lines that the chunk completes, without their ends. */
  push(chunk: Buffer): string[] {
    return this.split(this.decoder.write(chunk));
  }

  /** What is left when the stream has ended: a last line without an end, or nothing. */
  end(): string[] {
    const lines = this.split(this.decoder.end());
    if (this.partial !== '') lines.push(this.partial);
    this.partial = '';
    return lines;
  }

  private split(text: string): string[] {
    if (text === '') return [];
    const rest = this.endedWithReturn && text.startsWith('\n') ? text.slice(1) : text;
    this.endedWithReturn = false;

    const lines: string[] = [];
    let start = 0;
    for (const { 0: lineEnd, index } of rest.matchAll(/\r\n|\n|\r/g)) {
      this.extend(rest.slice(start, index), lines);
      start = index + lineEnd.length;
      // Some progress bars return before they draw, not after. So a bare `\r` on an empty line does not end a line.
      if (lineEnd === '\r' && this.partial === '') continue;
      lines.push(this.partial);
      this.partial = '';
      this.endedWithReturn = lineEnd === '\r' && start === rest.length;
    }
    this.extend(rest.slice(start), lines);
    return lines;
  }

  private extend(text: string, lines: string[]): void {
    this.partial += text;
    while (this.partial.length > MAX_LINE_LENGTH) {
      const cut = isHighSurrogate(this.partial.charCodeAt(MAX_LINE_LENGTH - 1)) ? MAX_LINE_LENGTH - 1 : MAX_LINE_LENGTH;
      lines.push(this.partial.slice(0, cut));
      this.partial = this.partial.slice(cut);
    }
  }
}

/** Whether a unit is the first one of a character of two units, which must not be separated. */
function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

/**
 * Delivers the lines of what a rank writes, no faster than they are taken. Resolves when the stream has ended, or is
 * destroyed, and all its lines were delivered. Never rejects.
 */
export async function relayLines(source: Readable, deliver: (lines: string[]) => Promise<void>): Promise<void> {
  const splitter = new LineSplitter();
  try {
    for await (const chunk of source) await deliver(splitter.push(chunk as Buffer));
  } catch {
    // Given up, or broken: nothing more will come.
  }
  await deliver(splitter.end());
}
