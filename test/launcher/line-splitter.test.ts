import { LineSplitter, MAX_LINE_LENGTH } from '../../src/launcher/line-splitter';

/** The lines of a text that arrives in chunks of so many bytes. */
function splitInChunks(text: string, chunkBytes: number): string[] {
  const bytes = Buffer.from(text);
  const splitter = new LineSplitter();
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += chunkBytes)
    lines.push(...splitter.push(bytes.subarray(at, at + chunkBytes)));
  return [...lines, ...splitter.end()];
}

describe('LineSplitter', () => {
  const text = 'plain\n\nzwölf Boxkämpfer 🥊 jagen\r\nwindows\r\n\r\nend 🏁';
  const lines = ['plain', '', 'zwölf Boxkämpfer 🥊 jagen', 'windows', '', 'end 🏁'];

  test.each([1, 2, 3, 4, 5, 7, 16, 1000])('gives the same lines for chunks of %i bytes', chunkBytes => {
    expect(splitInChunks(text, chunkBytes)).toEqual(lines);
  });

  test.each([1, 3, 1000])('makes lines of a progress bar, in chunks of %i bytes', chunkBytes => {
    expect(splitInChunks('\r10 %\r20 %\r30 %\ndone\n', chunkBytes)).toEqual(['10 %', '20 %', '30 %', 'done']);
    expect(splitInChunks('10 %\r20 %\r', chunkBytes)).toEqual(['10 %', '20 %']);
  });

  test('keeps a partial line until its end comes', () => {
    const splitter = new LineSplitter();
    expect(splitter.push(Buffer.from('half a'))).toEqual([]);
    expect(splitter.push(Buffer.from(' line\nnext'))).toEqual(['half a line']);
    expect(splitter.end()).toEqual(['next']);
    expect(splitter.end()).toEqual([]);
  });

  test('cuts a line that is too long, but never a character', () => {
    const splitter = new LineSplitter();
    const long = `x${'🥊'.repeat(MAX_LINE_LENGTH)}`;
    const early = splitter.push(Buffer.from(long));
    const all = [...early, ...splitter.end()];
    expect(early.length).toBeGreaterThanOrEqual(2);
    for (const line of all) {
      expect(line.length).toBeLessThanOrEqual(MAX_LINE_LENGTH);
      expect(Buffer.from(line).toString()).toBe(line);
    }
    expect(all.join('')).toBe(long);
  });
});
