import { Progress } from '../../src/bench/progress';
import { Capture } from '../launcher/support';

function progressOn(terminal: { isTTY?: boolean; columns?: number }): string {
  const output = Object.assign(new Capture(), terminal);
  const progress = new Progress(output as unknown as NodeJS.WriteStream);
  progress.show('the first of many');
  progress.clear();
  return output.text;
}

test('a terminal gets one line, never a wrapped one, and is left clean', () => {
  expect(progressOn({ isTTY: true, columns: 10 })).toBe('\r\x1b[2Kthe first\r\x1b[2K');
});

test('a file or pipe gets nothing', () => {
  expect(progressOn({})).toBe('');
});
