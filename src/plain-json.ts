import { invalidArgument } from './errors';

/**
 * Checks that JSON gives a value back as it is, and returns it. Other values would change without a word: a promise and
 * a Map become {}, NaN becomes null, a typed array becomes an object. Undefined is allowed as the value itself, and as
 * a property of an object, because one that is missing reads as undefined too.
 *
 * @param what What cannot be done with such a value, for the error: `A checkpoint cannot hold`.
 * @param place What the user calls the value: `state`. Parts are named after it: `state.history[3].loss`.
 * @throws GradringError `ERR_INVALID_ARGUMENT`, naming the first part that would change.
 */
export function requirePlain<T>(value: T, what: string, place: string): T {
  if (value !== undefined) check(value, { what, place, around: [] });
  return value;
}

/** A part of a value: where it is, and which objects it is in. */
interface Part {
  readonly what: string;
  readonly place: string;
  readonly around: readonly unknown[];
}

function check(value: unknown, part: Part): void {
  if (value === null || typeof value === 'boolean' || typeof value === 'string' || Number.isFinite(value)) return;
  if (typeof value === 'number' || value === undefined) throw refused(part, String(value));
  if (typeof value !== 'object') throw refused(part, `a ${typeof value}`);
  if (part.around.includes(value)) throw refused(part, 'an object that holds itself');
  if (!Array.isArray(value) && !isPlainObject(value)) throw refused(part, `a ${classOf(value)}`, hintFor(value));
  const inside = (place: string): Part => ({ ...part, place, around: [...part.around, value] });
  const elements = Array.isArray(value) ? Array.from(value as unknown[]) : []; // a hole becomes undefined
  elements.forEach((element, i) => check(element, inside(`${part.place}[${i}]`)));
  for (const [name, each] of Object.entries(value).slice(elements.length)) {
    const named = inside(part.place === '' ? name : `${part.place}.${name}`);
    if (Array.isArray(value)) throw refused(named, 'a property of an array');
    if (each !== undefined) check(each, named);
  }
  const [symbol] = Object.getOwnPropertySymbols(value);
  if (symbol !== undefined) throw refused(inside(`${part.place}[${String(symbol)}]`), 'named by a symbol');
}

/** Also for objects of another realm. */
export function isPlainObject(value: object): boolean {
  const prototype = Object.getPrototypeOf(value) as object | null;
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function classOf(value: object): string {
  return (value.constructor as { name?: string } | undefined)?.name || 'class of its own';
}

function hintFor(value: object): string {
  if (typeof (value as { then?: unknown }).then === 'function') return ' Await it first.';
  return ArrayBuffer.isView(value) ? ' Array.from(…) makes an array of it.' : '';
}

function refused({ what, place }: Part, found: string, hint = ''): Error {
  return invalidArgument(
    `${what} ${place}: it is ${found}, and would not come back as it is. Plain JSON does: null, booleans, texts, finite numbers, and arrays and plain objects of these.${hint}`,
  );
}
