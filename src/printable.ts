import { inspect, stripVTControlCharacters } from 'node:util';

/** Characters that are not shown, or that change how others are shown: a terminal may act on them. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** The most UTF-16 units in a name, as of a run or an endpoint. */
export const LONGEST_NAME = 512;

/**
 * A text of others in the form in which it may be shown on a terminal or in a log: on one line, and with each character
 * that is not printable written like `\u{1b}`. Tabs stay.
 *
 * @param longest A longer text is cut, and says how long it was. In UTF-16 units.
 */
export function printable(text: string, longest = Infinity): string {
  return shown(text, longest, /\t/);
}

/** A name that another process has sent, for an error. */
export function shownName(name: string): string {
  return printable(name, LONGEST_NAME);
}

/** The same for a text of several lines. */
export function printableLines(text: string, longest = Infinity): string {
  return shown(text, longest, /[\t\n]/);
}

/** A line that a program wrote for a terminal, without its colours. */
export function plainLine(line: string): string {
  return printable(stripVTControlCharacters(line));
}

/** A value in a few words, for an error. */
export function brief(value: unknown): string {
  return inspect(value, { depth: 0, breakLength: Infinity, maxArrayLength: 3 });
}

function shown(text: string, longest: number, kept: RegExp): string {
  const begin = text.length > longest ? text.slice(0, longest) : text; // before all else: it may have gigabytes
  const escaped = begin.replace(UNPRINTABLE, character => (kept.test(character) ? character : escape(character)));
  if (text.length <= longest && escaped.length <= longest) return escaped;
  const note = `… (${text.length} characters)`;
  // If the cut is inside a character of two units, its first half goes too.
  return escaped.slice(0, Math.max(0, longest - note.length)).replace(/[\ud800-\udbff]$/, '') + note;
}

function escape(character: string): string {
  return `\\u{${character.codePointAt(0)!.toString(16)}}`;
}
