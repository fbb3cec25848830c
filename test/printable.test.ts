import { GradringError, invalidArgument } from '../src/errors';
import { plainLine, printable, printableLines } from '../src/printable';

const ESC = '\x1b';

test.each([
  [`${ESC}[2J`, '\\u{1b}[2J'],
  ['bell\x07, back\b, delete\x7f', 'bell\\u{7}, back\\u{8}, delete\\u{7f}'],
  ['\x9b31mred, \x9d0;title\x9c', '\\u{9b}31mred, \\u{9d}0;title\\u{9c}'], // C1
  ['user\u202etxt.exe, \u2066a\u2069', 'user\\u{202e}txt.exe, \\u{2066}a\\u{2069}'], // direction
  ['zero\u200bwidth, \ufeff, tag\u{e0041}', 'zero\\u{200b}width, \\u{feff}, tag\\u{e0041}'],
  ['\ud800half', '\\u{d800}half'],
  ['a\r\nb\u2028c\u2029', 'a\\u{d}\\u{a}b\\u{2028}c\\u{2029}'],
  ['tab\there, café, 日本, 🙂, \\u{1b}', 'tab\there, café, 日本, 🙂, \\u{1b}'],
])('%j is shown as %j', (text, shown) => {
  expect(printable(text)).toBe(shown);
  expect(printableLines(text)).toBe(shown.replaceAll('\\u{a}', '\n'));
});

test('a text that is too long is cut, says how long it was, and is no longer than asked', () => {
  expect(printable('x'.repeat(100), 100)).toBe('x'.repeat(100));
  expect(printable('x'.repeat(2_000_000), 40)).toBe(`${'x'.repeat(18)}… (2000000 characters)`);
  for (const text of ['🙂', ESC, '\ud83d', 'é'].map(character => character.repeat(90))) {
    for (let longest = 20; longest < 60; longest += 1) {
      const shown = printable(text, longest);
      expect(shown.length).toBeLessThanOrEqual(longest);
      expect(shown).toMatch(/… \(\d+ characters\)$/);
      expect(shown).toBe(printable(shown, longest)); // no half of a character is left
    }
  }
});

test('a line that a program wrote for a terminal loses its colours, and the rest is shown', () => {
  expect(plainLine(`${ESC}[31mred${ESC}[0m, \x07, \x9d${ESC}`)).toBe('red, \\u{7}, \\u{9d}\\u{1b}');
});

test('the message of an error quotes nothing that is not printable, and has a bound', () => {
  const { message, stack } = invalidArgument(`op is '${ESC}[31m'\nUse another.`);
  expect(message).toBe("op is '\\u{1b}[31m'\nUse another.");
  expect(stack).not.toContain(ESC);
  expect(new GradringError('ERR_PROTOCOL', 'x'.repeat(1e6)).message.length).toBe(32_768);
});
