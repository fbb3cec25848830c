import { Writable } from 'node:stream';

/** A stream that passes each complete line on. */
export function lineStream(onLine: (line: string) => void): Writable {
  let rest = '';
  return new Writable({
    decodeStrings: false,
    write(chunk: string | Buffer, _encoding, done) {
      const lines = chunk.toString().split('\n');
      lines[0] = rest + lines[0]!; // not searched again
      rest = lines.pop()!;
      for (const line of lines) onLine(line);
      done();
    },
  });
}
