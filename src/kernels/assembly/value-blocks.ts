import { packBits, writeBits } from './bits';
import { riceEncode, riceParameter } from './rice';
import { mirrorSymbols, raiseSymbols } from './values';

/**
 * ValueCode of ../../compression/value-format.ts, where these codes are described, and the widths of the fields before
 * them.
 */
const enum Code {
  Rising,
  Falling,
  Fixed,
  Plain,
}
const CODE_BITS: u32 = 2;
const PARAMETER_BITS: u32 = 5;
const WIDTH_BITS: u32 = 6;

export function encodeSymbols(
  symbols: usize,
  count: u32,
  smallestSymbol: u32,
  largestSymbol: u32,
  sum: f64,
  magnitudeBits: u32,
  into: f64,
): f64 {
  const smallest = smallestSymbol >> 1;
  const largest = largestSymbol >> 1;
  const mean = sum / <f64>count;
  const fromLargest = 2 * <f64>largest - mean;
  const fromSmallest = mean - 2 * <f64>smallest;
  // Distances from the end of the range that is nearer to most symbols.
  const falling = fromLargest < fromSmallest;
  const base = falling ? largest : smallest;
  if (falling) mirrorSymbols(symbols, count, base);
  else raiseSymbols(symbols, count, -base);

  const parameter = riceParameter(symbols, count, <u32>max<f64>(0, falling ? fromLargest : fromSmallest), false);
  let at = writeBits(falling ? Code.Falling : Code.Rising, CODE_BITS, into);
  at = writeBits(base, magnitudeBits, at);
  at = writeBits(parameter, PARAMETER_BITS, at);
  at = riceEncode(symbols, count, parameter, at);

  const width = 32 - clz(2 * (largest - smallest) + 1);
  const fixedBits = CODE_BITS + magnitudeBits + WIDTH_BITS + width * count;
  const plainBits = CODE_BITS + (magnitudeBits + 1) * count;
  if (at - into <= <f64>min<u32>(fixedBits, plainBits)) return at;
  // Restores the symbols.
  if (falling) mirrorSymbols(symbols, count, base);
  else raiseSymbols(symbols, count, base);
  if (plainBits <= fixedBits) return packBits(symbols, count, magnitudeBits + 1, writeBits(Code.Plain, CODE_BITS, into));
  at = writeBits(Code.Fixed, CODE_BITS, into);
  at = writeBits(smallest, magnitudeBits, at);
  at = writeBits(width, WIDTH_BITS, at);
  raiseSymbols(symbols, count, -smallest);
  return packBits(symbols, count, width, at);
}
