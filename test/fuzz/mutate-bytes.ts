import type { Random } from './random';

// Damage to bytes, in the ways that catch decoders: in whole bytes, and in fields of any width at any bit, as the
// streams of a payload have them.

/** Widths of the fields in our formats: of a flag, a code, a parameter, a width, a base, a count or a scale. */
const FIELD_WIDTHS = [1, 2, 3, 5, 6, 7, 8, 15, 16, 31, 32];

type Mutation = (random: Random, bytes: Bytes, other: Uint8Array) => Bytes;

/** Bytes of a mutant, which a mutation may write to. */
type Bytes = Uint8Array<ArrayBuffer>;

const MUTATIONS: readonly Mutation[] = [
  flipBit,
  flipBit,
  setByte,
  setField,
  setField,
  setWord,
  truncate,
  extend,
  duplicate,
  remove,
  splice,
  noise,
];

/**
 * The bytes with one to four damages. They stay as they were.
 *
 * @param other Bytes of the same kind, of which parts may be taken.
 */
export function mutateBytes(random: Random, bytes: Uint8Array, other: Uint8Array): Uint8Array<ArrayBuffer> {
  let mutant = new Uint8Array(bytes); // the slice of a Buffer would be the same memory
  for (let left = 1 + random.below(4); left > 0; left--) mutant = random.of(MUTATIONS)(random, mutant, other);
  return mutant;
}

function flipBit(random: Random, bytes: Bytes): Bytes {
  const bit = random.below(8 * bytes.length);
  bytes[bit >> 3] ^= 1 << (bit & 7); // nothing where there are no bytes
  return bytes;
}

function setByte(random: Random, bytes: Bytes): Bytes {
  bytes[random.below(bytes.length)] = random.uint32();
  return bytes;
}

/** Numbers at which fields of that width turn to something else, and numbers near to those. */
function interesting(random: Random, width: number): number {
  const top = 2 ** width;
  const number = random.of([
    0,
    1,
    top - 1,
    top / 2,
    top / 2 - 1,
    random.below(top),
    random.below(64),
    top - random.below(64),
  ]);
  return Math.max(0, number) % top;
}

function setField(random: Random, bytes: Bytes): Bytes {
  const width = random.of(FIELD_WIDTHS);
  // Near the beginning as often as anywhere: that is where the fields are that rule the rest.
  const at = random.below(random.below(2) === 0 ? Math.min(64, 8 * bytes.length) : 8 * bytes.length);
  const value = interesting(random, width);
  for (let i = 0; i < width && at + i < 8 * bytes.length; i++) {
    const mask = 1 << ((at + i) & 7);
    if ((value >>> i) & 1) bytes[(at + i) >> 3] |= mask;
    else bytes[(at + i) >> 3] &= ~mask;
  }
  return bytes;
}

/** Four bytes, where FlatBuffers have offsets and lengths. */
function setWord(random: Random, bytes: Bytes): Bytes {
  if (bytes.length < 4) return bytes;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const at = 4 * random.below(bytes.length >> 2);
  const old = view.getInt32(at, true);
  const word = random.of([
    interesting(random, 32),
    bytes.length - at,
    random.below(bytes.length),
    old + 1,
    old - 1,
    old + 4,
    -old,
  ]);
  view.setInt32(at, word, true);
  return bytes;
}

function truncate(random: Random, bytes: Bytes): Bytes {
  const most = random.below(2) === 0 ? Math.min(8, bytes.length) : bytes.length;
  return bytes.slice(0, bytes.length - random.below(most + 1));
}

function extend(random: Random, bytes: Bytes): Bytes {
  return joined(bytes, random.bytes(1 + random.below(64)));
}

function part(random: Random, bytes: Uint8Array): [start: number, end: number] {
  const start = random.below(bytes.length);
  return [start, start + random.below(Math.min(64, bytes.length - start + 1))];
}

function duplicate(random: Random, bytes: Bytes): Bytes {
  const [start, end] = part(random, bytes);
  return joined(bytes.subarray(0, end), bytes.subarray(start));
}

function remove(random: Random, bytes: Bytes): Bytes {
  const [start, end] = part(random, bytes);
  return joined(bytes.subarray(0, start), bytes.subarray(end));
}

function splice(random: Random, bytes: Bytes, other: Uint8Array): Bytes {
  const at = random.below(bytes.length + 1);
  const from = random.below(2) === 0 ? at : random.below(other.length + 1);
  return joined(bytes.subarray(0, at), other.subarray(from));
}

function noise(random: Random, bytes: Bytes): Bytes {
  const [start, end] = part(random, bytes);
  for (let i = start; i < end; i++) bytes[i] = random.uint32();
  return bytes;
}

export function joined(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}
