// Streams of bits. A bit address is 8 · pointer + bit. Bit 0 is the lowest bit of a byte, and of a number.
//
// Writers store, and readers load, eight bytes at a time. So the eight bytes behind a stream must belong to the caller,
// and a writer overwrites them.

@inline
export function byteOf(address: f64): usize {
  return <usize>(<u64>address >> 3);
}

@inline
export function bitOf(address: f64): u64 {
  return <u64>address & 7;
}

@inline
export function addressOf(byte: usize, bit: u64): f64 {
  return <f64>byte * 8 + <f64>bit;
}

/** The bits of a byte below `bit`, which were written before. */
@inline
export function writtenBefore(byte: usize, bit: u64): u64 {
  return <u64>load<u8>(byte) & ((<u64>1 << bit) - 1);
}

@inline
function lowBits(width: u64): u64 {
  return (<u64>1 << width) - 1;
}

// The cursor of functions that do not keep their own in registers. It belongs to the instance, so to one thread.
let byte: usize = 0;
let bit: u64 = 0;
let written: u64 = 0;

export function startAt(address: f64): void {
  byte = byteOf(address);
  bit = bitOf(address);
}

export function startWritingAt(address: f64): void {
  startAt(address);
  written = writtenBefore(byte, bit);
}

export function position(): f64 {
  return addressOf(byte, bit);
}

/** Appends the low `width` bits of a value, at most 32. Its other bits must be 0. */
export function putBits(value: u32, width: u32): void {
  written |= <u64>value << bit;
  bit += width;
  store<u64>(byte, written);
  byte += <usize>(bit >> 3);
  written >>= bit & ~7;
  bit &= 7;
}

/** Takes the next `width` bits, at most 32. */
export function takeBits(width: u32): u32 {
  const value = <u32>((load<u64>(byte) >> bit) & lowBits(width));
  bit += width;
  byte += <usize>(bit >> 3);
  bit &= 7;
  return value;
}

export function writeBits(value: u32, width: u32, into: f64): f64 {
  startWritingAt(into);
  putBits(value, width);
  return position();
}

export function bitsAt(width: u32, from: f64): u32 {
  startAt(from);
  return takeBits(width);
}

/** An f64 is a number without a sign for the caller. */
export function readBits(width: u32, from: f64): f64 {
  return bitsAt(width, from);
}

export function packBits(symbols: usize, count: u32, width: u32, into: f64): f64 {
  startWritingAt(into);
  for (const end = symbols + (<usize>count << 2); symbols < end; symbols += 4) putBits(load<u32>(symbols), width);
  return position();
}

export function unpackBits(symbols: usize, count: u32, width: u32, from: f64): f64 {
  startAt(from);
  for (const end = symbols + (<usize>count << 2); symbols < end; symbols += 4) store<u32>(symbols, takeBits(width));
  return position();
}
