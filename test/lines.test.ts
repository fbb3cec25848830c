import { Lines, lineStream } from '../src/lines';

/** The lines of a text that comes in pieces of that length. */
function linesOf(text: string, length: number): string[] {
  const lines = new Lines(100);
  const pieces = Array.from({ length: Math.ceil(text.length / length) }, (_, i) =>
    text.slice(i * length, (i + 1) * length),
  );
  return pieces.flatMap(piece => [...lines.push(piece)]);
}

test('lines are the same, wherever their pieces end', () => {
  const text = '\na\r\n\nbc\u2028d\n🙂\nnot whole';
  for (let length = 1; length <= text.length; length += 1) {
    expect(linesOf(text, length)).toEqual(['', 'a\r', '', 'bc\u2028d', '🙂']);
  }
});

test('a line that is too long is an error when that is known, and what came before is there', () => {
  const lines = new Lines(100);
  expect([...lines.push(`first\n${'x'.repeat(60)}`)]).toEqual(['first']);
  expect([...lines.push('x'.repeat(40))]).toEqual([]);
  const seen: string[] = [];
  const push = () => {
    for (const line of lines.push(`\nthird\n${'y'.repeat(101)}`)) seen.push(line);
  };
  expect(push).toThrow(new RangeError('a line of more than 100 characters'));
  expect(seen).toEqual(['x'.repeat(100), 'third']);
});

test('a line of 2 MB that comes character by character is not searched again for each', () => {
  // That would be two million times a megabyte.
  const lines = new Lines(Infinity);
  for (let i = 0; i < 2_000_000; i += 1) for (const line of lines.push('x')) throw new Error(line);
  const [line] = lines.push('\n');
  expect(line).toHaveLength(2_000_000);
});

test('a stream of lines takes bytes, cut anywhere, and text', () => {
  const heard: string[] = [];
  const stream = lineStream(line => heard.push(line));
  for (const byte of Buffer.from('grün 🙂\nse')) stream.write(Buffer.from([byte]));
  stream.write('cond\nnot whole');
  expect(heard).toEqual(['grün 🙂', 'second']);
});
