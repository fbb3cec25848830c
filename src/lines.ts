import { Writable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';

/**
 * Cuts a text that comes in pieces into lines, at `\n` only. Each piece is searched once, so a line that comes in many
 * pieces takes no longer than others.
 */
export class Lines {
  private begun = '';

  /** @param longest The most UTF-16 units of a line. */
  constructor(private readonly longest: number) {}

  /**
   * The lines that the piece completes, without their ends.
   *
   * @throws RangeError if a line is too long, as soon as that is known.
   */
  *push(piece: string): Generator<string> {
    let start = 0;
    for (let end = piece.indexOf('\n'); end !== -1; end = piece.indexOf('\n', start)) {
      this.extend(piece.slice(start, end));
      start = end + 1;
      const line = this.begun;
      this.begun = '';
      yield line;
    }
    this.extend(piece.slice(start));
  }

  private extend(text: string): void {
    if (this.begun.length + text.length > this.longest) {
      throw new RangeError(`a line of more than ${this.longest} characters`);
    }
    this.begun += text;
  }
}

/** A stream that passes each complete line on. */
export function lineStream(onLine: (line: string) => void): Writable {
  const lines = new Lines(Infinity);
  const decoder = new StringDecoder('utf8');
  return new Writable({
    decodeStrings: false,
    write(chunk: string | Buffer, _encoding, done) {
      for (const line of lines.push(typeof chunk === 'string' ? chunk : decoder.write(chunk))) onLine(line);
      done();
    },
  });
}
