import { brokenValue, LARGEST_VALUE } from '../rank-values';
import { invalidArgument } from '../errors';
import { isPlainObject, requirePlain } from '../plain-json';
import { isAnything, isBetween, isCount, isListOf, isOneOf, isText, isWith } from '../shape';

/** The arrays that an object may hold. */
const TYPES = {
  ...{ Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array },
  ...{ Float32Array, Float64Array, BigInt64Array, BigUint64Array },
};
type TypeName = keyof typeof TYPES;
type TypedArray = InstanceType<(typeof TYPES)[TypeName]>;

const isTypeName = isOneOf(Object.keys(TYPES) as TypeName[]);

/** A typed array within a value. */
interface HeldArray {
  /** The names and indices that lead to it. There is a null in its place. */
  readonly path: readonly string[];
  readonly type: TypeName;
  readonly length: number;
}

/** The JSON of a value whose typed arrays were taken out. */
interface Header {
  readonly value: unknown;
  readonly arrays: readonly HeldArray[];
}

const isHeader = isWith<Header>({
  value: isAnything,
  arrays: isListOf(isWith<HeldArray>({ path: isListOf(isText), type: isTypeName, length: isCount })),
});

/** The most bytes of an encoded value: those of the memory that arrays are in while they travel. */
const LARGEST_OBJECT = 2 ** 32;

/** Whether an encoded value may have so many bytes. */
export const isObjectLength = isBetween(0, LARGEST_OBJECT);

/** So that each array may be viewed where it lies. */
const ALIGNMENT = 8;
const aligned = (bytes: number) => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;

/**
 * The bytes of a value: plain JSON, and typed arrays in it. First the length of the header, then the header, then the
 * arrays, each from a multiple of 8 on.
 *
 * @param call The user's call, for errors.
 * @throws GradringError `ERR_INVALID_ARGUMENT`, naming the first part that would not come back as it is; for more than
 *   4 GiB.
 */
export function encodeObject(value: unknown, call: string): Uint8Array {
  const arrays: (HeldArray & { readonly array: TypedArray })[] = [];
  const takeOut = (part: unknown, path: readonly string[], around: readonly unknown[]): unknown => {
    const type = typeOf(part);
    if (type !== undefined) {
      arrays.push({ path, type, length: (part as TypedArray).length, array: part as TypedArray });
      return null;
    }
    if (typeof part !== 'object' || part === null || around.includes(part)) return part;
    const inside = (each: unknown, name: string) => takeOut(each, [...path, name], [...around, part]);
    if (Array.isArray(part)) return Array.from(part, (each: unknown, i) => inside(each, String(i)));
    if (!isPlainObject(part)) return part;
    return Object.fromEntries(Object.entries(part).map(([name, each]) => [name, inside(each, name)]));
  };
  const plain = requirePlain(takeOut(value, [], []), `${call} cannot send`, 'value');
  const header: Header = { value: plain, arrays: arrays.map(({ path, type, length }) => ({ path, type, length })) };
  const json = new TextEncoder().encode(JSON.stringify(header));
  if (json.length > LARGEST_VALUE) {
    throw invalidArgument(`${call}: without its arrays the value has ${json.length} bytes of JSON; it may have ${LARGEST_VALUE}.`); // prettier-ignore
  }
  const start = aligned(ALIGNMENT + json.length);
  const byteLength = arrays.reduce((sum, { array }) => sum + aligned(array.byteLength), start);
  if (!isObjectLength(byteLength)) {
    throw invalidArgument(`${call}: the value has ${byteLength} bytes; it may have ${LARGEST_OBJECT}.`);
  }
  const bytes = new Uint8Array(byteLength);
  new DataView(bytes.buffer).setUint32(0, json.length, true);
  bytes.set(json, ALIGNMENT);
  let at = start;
  for (const { array } of arrays) {
    bytes.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength), at);
    at += aligned(array.byteLength);
  }
  return bytes;
}

/**
 * The inverse of {@link encodeObject}. Arrays are copies.
 *
 * @param rank Who has sent the bytes.
 * @throws GradringError `ERR_PROTOCOL` if these are not such bytes.
 */
export function decodeObject(bytes: Uint8Array, rank: number): unknown {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const jsonLength = bytes.length < ALIGNMENT ? Infinity : view.getUint32(0, true);
  if (jsonLength > bytes.length - ALIGNMENT) throw brokenValue(rank);
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder().decode(bytes.subarray(ALIGNMENT, ALIGNMENT + jsonLength)));
  } catch {
    throw brokenValue(rank); // the error of the parser would quote the text
  }
  if (!isHeader(header)) throw brokenValue(rank);
  const root: { value: unknown } = { value: header.value };
  let at = aligned(ALIGNMENT + jsonLength);
  for (const { path, type, length } of header.arrays) {
    const end = at + TYPES[type].BYTES_PER_ELEMENT * length;
    if (end > bytes.length) throw brokenValue(rank);
    put(root, ['value', ...path], new TYPES[type](bytes.slice(at, end).buffer), rank);
    at = aligned(end);
  }
  if (at !== aligned(bytes.length)) throw brokenValue(rank);
  return root.value;
}

/** Puts an array in place of the null there. */
function put(holder: object, path: readonly string[], array: TypedArray, rank: number): void {
  const last = path.length - 1;
  let within: unknown = holder;
  for (const [i, name] of path.entries()) {
    if (typeof within !== 'object' || within === null || !Object.hasOwn(within, name)) throw brokenValue(rank);
    const parts = within as Record<string, unknown>;
    if (i < last) within = parts[name];
    else if (parts[name] === null) Object.defineProperty(parts, name, { ...DATA, value: array });
    else throw brokenValue(rank);
  }
}

/** Not by an assignment, which would change the prototype for the name `__proto__`. */
const DATA = { configurable: true, enumerable: true, writable: true };

/** The type of a typed array, also of another realm. */
function typeOf(value: unknown): TypeName | undefined {
  const name = ArrayBuffer.isView(value) ? Object.prototype.toString.call(value).slice('[object '.length, -1) : '';
  return isTypeName(name) ? name : undefined;
}
