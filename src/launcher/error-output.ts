import path from 'node:path';
import { counted } from '../counted';
import { OWN_FOLDER } from '../own-file';
import { plainLine } from '../printable';

/** How much of a rank's error output is kept, in UTF-16 units: more than {@link MOST_LINES} of the longest lines. */
const MOST_KEPT = 2 ** 20;

/** What a line counts beside its text, so that empty lines do not fill the memory. */
const LINE_COST = 64;

/** How many lines are shown of output without an error, of an error's message, and of its frames. */
const MOST_LINES = 10;

/** How many errors are shown: the error itself, its cause, the cause of that, and so on. */
const MOST_ERRORS = 6;

/** A longer line of code is not shown: it was made by a program. */
const LONGEST_SOURCE = 200;

/** gradring's own code. Stack traces name its source if they follow source maps. */
const OWN_FOLDERS = ['dist', 'src'].map(folder => path.join(OWN_FOLDER, '..', folder) + path.sep);

/** What is shown of a rank's error output when the rank has failed. */
export interface LastWords {
  /** Whether the lines describe an error; else they are just the last ones. */
  readonly isError: boolean;
  readonly lines: readonly string[];
}

/** The end of a rank's error output. */
export class ErrorOutput {
  private readonly lines: string[] = [];
  private cost = 0;

  add(lines: readonly string[]): void {
    for (const line of lines) {
      this.lines.push(line);
      this.cost += line.length + LINE_COST;
    }
    let dropped = 0;
    while (this.cost > MOST_KEPT) this.cost -= this.lines[dropped++]!.length + LINE_COST;
    this.lines.splice(0, dropped);
  }

  /**
   * The error that ended the process: its message, its stack frames in the user's own files, how many frames were left
   * out, and the same of its causes. Without an uncaught error it is the one that the program printed, with what it
   * printed after that. If that is long, or there is no error, it is the last lines.
   */
  get lastWords(): LastWords {
    const lines = this.lines.map(line => plainLine(line).trimEnd());
    const error = uncaughtError(lines) ?? printedError(lines);
    return { isError: error !== undefined, lines: error ?? withoutBlank(lines).slice(-MOST_LINES) };
  }
}

/** An error as Node prints it. */
interface PrintedError {
  /** The first line begins with the error's name. */
  readonly message: readonly string[];
  readonly code: string | undefined;
  readonly frames: readonly string[];
  /** Its cause, or the errors of an AggregateError. Each with words that say which. */
  readonly inner: readonly { readonly as: string; readonly error: PrintedError }[];
}

/**
 * The last error that ended a process. Node prints the place where it was thrown, the error, and finally its own
 * version.
 */
function uncaughtError(lines: readonly string[]): string[] | undefined {
  const end = lines.findLastIndex(isVersion);
  if (end === -1) return undefined;
  const begin = lines.findLastIndex((line, i) => i < end && isVersion(line)) + 1; // of another process
  const before = lines.slice(begin, end).filter(line => !line.startsWith('(Use `node --trace-uncaught'));
  const withFile = before.findLastIndex((_, i) => placeAt(before, i) !== undefined);
  const caret = withFile === -1 ? before.findLastIndex(isCaret) : withFile; // a very long line of code was cut
  const start = before.findIndex((line, i) => i > caret && line !== '');
  if (caret === -1 || start === -1) return printedError(before);
  return describe(readError(before, start, 0, before[start]!).error, placeAt(before, caret));
}

function isVersion(line: string): boolean {
  return /^Node\.js v\d+\.\d+\.\d+/.test(line);
}

/** The last error that the program printed, with what it printed after that. None if that is long: the error is old. */
function printedError(lines: readonly string[]): string[] | undefined {
  const lastFrame = lines.findLastIndex(line => isFrame(line, 0));
  const beforeFrames = lines.findLastIndex((line, i) => i < lastFrame && !isFrame(line, 0));
  if (beforeFrames === -1) return undefined;
  const name = /(^|[\s[])[\w$.]*(Error|Exception)\]?( \[[^\]]*\])?(:|$)/;
  const named = lines.findLastIndex((line, i) => i <= beforeFrames && (name.test(line) || isFrame(line, 0)));
  const start = named === -1 || isFrame(lines[named]!, 0) ? beforeFrames : named;
  if (lines[start]!.startsWith('(node:')) return undefined; // a warning of Node's
  const { error, next } = readError(lines, start, 0, lines[start]!);
  const after = withoutBlank(lines.slice(next));
  if (after.length >= MOST_LINES) return undefined;
  const caret = lines.findLastIndex((line, i) => i < start && line !== '');
  return [...describe(error, placeAt(lines, caret)), ...after];
}

/** The place that is printed above an error, which ends in this line: a file, a line of it, and a caret below that. */
function placeAt(lines: readonly string[], caret: number): string[] | undefined {
  if (!isCaret(lines[caret] ?? '') || !/^\S.*:\d+$/.test(lines[caret - 2] ?? '')) return undefined;
  return lines[caret - 1]!.length > LONGEST_SOURCE ? [lines[caret - 2]!] : lines.slice(caret - 2, caret + 1);
}

function isCaret(line: string): boolean {
  return /^\s*\^+$/.test(line);
}

/**
 * Reads an error: message, frames, and in braces its properties.
 *
 * @param start Its first line.
 * @param indent How far it is indented.
 * @param head The first line of the message, without what precedes it in that line.
 * @returns The error, and the line after it.
 */
function readError(
  lines: readonly string[],
  start: number,
  indent: number,
  head: string,
): { error: PrintedError; next: number } {
  const isOutside = (line: string): boolean => indent > 0 && isClosing(line, indent - 2);
  let next = lines.findIndex((line, i) => i > start && (isFrame(line, indent) || isOutside(line)));
  const hasFrames = next !== -1 && isFrame(lines[next]!, indent);
  if (!hasFrames) next = indent === 0 && !head.endsWith('{') ? lines.length : start + 1;
  const message = [head, ...lines.slice(start + 1, next).map(line => line.slice(indent))];
  while (message.at(-1) === '') message.pop();
  const frames: string[] = [];
  while (next < lines.length && isFrame(lines[next]!, indent)) frames.push(lines[next++]!.trim());

  const isObject = /[{[]$/.test(frames.at(-1) ?? head);
  const properties = isObject ? readProperties(lines, next, indent) : { code: undefined, inner: [], next };
  if (hasFrames) frames.push(withoutEnd(frames.pop()!));
  else message[0] = withoutEnd(head).replace(/^\[(.*)\]/, '$1'); // Node puts errors without a stack in brackets
  return { error: { message, code: properties.code, frames, inner: properties.inner }, next: properties.next };
}

/** Reads the properties of an error with that indentation. Returns also the line after them. */
function readProperties(
  lines: readonly string[],
  start: number,
  indent: number,
): Pick<PrintedError, 'code' | 'inner'> & { next: number } {
  let code: string | undefined;
  const inner: { as: string; error: PrintedError }[] = [];
  let next = start;
  const readInner = (as: string, innerIndent: number, head: string): void => {
    const read = readError(lines, next, innerIndent, head);
    inner.push({ as, error: read.error });
    next = read.next;
  };
  while (next < lines.length && !isClosing(lines[next]!, indent)) {
    const property = lines[next]!.slice(indent + 2);
    const cause = /^\[cause\]: (.*)/.exec(property)?.[1];
    if (cause !== undefined) {
      readInner('caused by', indent + 2, cause);
    } else if (property === '[errors]: [') {
      next++;
      while (next < lines.length && !isClosing(lines[next]!, indent + 2)) {
        readInner(`error ${inner.length + 1}`, indent + 4, lines[next]!.trim());
      }
    } else {
      code ??= /^code: '(.*)',?$/.exec(property)?.[1];
      next++;
    }
  }
  return { code, inner, next: next + 1 };
}

/** Whether a line ends an object with that indentation. */
function isClosing(line: string, indent: number): boolean {
  return /^[}\]]/.test(line.slice(indent));
}

/** Whether a line is a frame, or a line among frames that replaces several or says what the next ones are. */
function isFrame(line: string, indent: number): boolean {
  const text = line.trimStart();
  if (line.length - text.length === indent) return text.startsWith("Emitted 'error' event");
  return (
    line.length - text.length === indent + 4 && /^(at |\.\.\. \d+ lines matching |\[\.\.\. lines match)/.test(text)
  );
}

/** Removes what begins an object, or separates its properties, at the end of a line. */
function withoutEnd(line: string): string {
  return line.replace(/( \{|,)$/, '');
}

/** The error's lines for the user, and those of the errors in it. */
function describe(error: PrintedError, place?: readonly string[]): string[] {
  const all = withInner('', error);
  const lines = all.slice(0, MOST_ERRORS).flatMap((each, i) => describeOne(each, i === 0 ? place : undefined));
  return all.length > MOST_ERRORS ? [...lines, `(${counted(all.length - MOST_ERRORS, 'more error')})`] : lines;
}

function withInner(as: string, error: PrintedError): { as: string; error: PrintedError }[] {
  return [{ as, error }, ...error.inner.flatMap(inner => withInner(`${inner.as}: `, inner.error))];
}

function describeOne(
  { as, error: { message, code, frames } }: { as: string; error: PrintedError },
  place: readonly string[] = [],
): string[] {
  const [head, ...more] = message;
  const own = [...new Set(frames.filter(isOwnFrame))].slice(0, MOST_LINES);
  // The frames do not have the place of a syntax error.
  const isNew = place.length > 0 && isOwnFile(place[0]!) && !own.some(frame => frame.includes(`${place[0]}:`));
  return [
    as + withCode(head!, code),
    ...more.slice(0, MOST_LINES - 1),
    ...(more.length < MOST_LINES ? [] : [`(${counted(more.length - MOST_LINES + 1, 'more line')})`]),
    ...(isNew ? place.map((line, i) => `    ${i === 0 ? 'at ' : ''}${line}`) : []),
    ...own.map(frame => `    ${frame}`),
    ...leftOut(frames, own.length),
  ];
}

/** Adds the code as Node does with its own errors: `TypeError [ERR_CODE]: words`. */
function withCode(head: string, code: string | undefined): string {
  if (code === undefined || head.includes(code)) return head;
  const name = /^[\w$.]+(?=:|$)/.exec(head)?.[0];
  return name === undefined ? `${head} (${code})` : `${name} [${code}]${head.slice(name.length)}`;
}

function leftOut(frames: readonly string[], shown: number): string[] {
  const counts = frames.map(frame => (frame.startsWith('at ') ? 1 : Number(/^\.\.\. (\d+)/.exec(frame)?.[1] ?? 0)));
  const count = counts.reduce((sum, each) => sum + each, 0) - shown;
  if (count === 0) return [];
  return shown > 0
    ? [`    (${counted(count, 'more frame')} left out)`]
    : [`    (${counted(count, 'frame')} left out: none is in a file of yours)`];
}

function isOwnFrame(frame: string): boolean {
  const file = /^at (?:.* \()?(?:async )?(.*:\d+):\d+\)?$/.exec(frame)?.[1];
  return file !== undefined && isOwnFile(file);
}

/** @param place A path or URL, and a line. */
function isOwnFile(place: string): boolean {
  const file = place.replace(/^file:\/\//, '');
  if (!path.isAbsolute(file) || /[\\/]node_modules[\\/]/.test(file)) return false;
  return !OWN_FOLDERS.some(folder => file.startsWith(folder));
}

function withoutBlank(lines: readonly string[]): string[] {
  return lines.filter(line => line !== '');
}
