import type { Magnitude, Pointer } from './pointer';

/**
 * A position in a stream of bits: 8 · pointer + bit. Bit 0 is the lowest bit of a byte. It is below 2³⁵, so exact as a
 * number.
 *
 * Writers keep the bits before the position. They may overwrite up to {@link STREAM_SLACK_BYTES} behind what they
 * write, and readers may read as far. So every stream must have that much room behind it.
 */
export type BitAddress = number;

/** The room behind a stream of bits. */
export const STREAM_SLACK_BYTES = 16;

/**
 * How values become symbols. A symbol is 2 · the magnitude in a format that is mostly coarser than float32, plus 1 for
 * negative values (also −0).
 *
 * - float32: the 31 bits without the sign. Nothing is lost.
 * - bfloat16: the upper 15 of these bits, rounded; at most 0x7f7f, the largest finite one.
 * - float16: the 15 bits of |value| · 2^exponent as a float16, rounded, at most 0x77ff. −126 ≤ exponent ≤ 126.
 * - int8: |value| / scale rounded, at most 127. 2⁻¹²⁶ ≤ scale, finite.
 * - log4: the number, 0 to 7, of the nearest level. `levels` are eight float32: 0, then ascending.
 *
 * Halves are rounded to even, with log4 down. So the sent value is never more than twice the value, and value − sent is
 * exact in float32 (Sterbenz) if value ≤ 2 · the largest value of the format.
 */
export type Quantization =
  | { readonly format: 'float32' | 'bfloat16' }
  | { readonly format: 'float16'; readonly exponent: number }
  | { readonly format: 'int8'; readonly scale: number }
  | { readonly format: 'log4'; readonly levels: Pointer };

/** The range of the symbols of {@link CodecKernels.quantize}. */
export interface SymbolRange {
  /** 2³² − 1 if there are none. */
  readonly smallest: number;
  /** 0 if there are none. */
  readonly largest: number;
  readonly sum: number;
}

/** A stream for {@link CodecKernels.riceDecodeBoth}. */
export interface RiceStream {
  readonly symbols: Pointer;
  readonly parameter: number;
  readonly from: BitAddress;
  readonly until: BitAddress;
}

/**
 * The tight loops of the codecs, a part of {@link Kernels}: numbers to bits and back. They make the wire format of
 * docs/wire-format.md.
 *
 * A *symbol* is a uint32. Arrays of symbols, indices and values are 4-byte aligned. Indices belong to different
 * elements of a tensor, and ascend. Decoders accept any bits: they read nothing beyond `until` and the slack, write at
 * most `count` entries, and return −1 or false for streams that no encoder writes and that could harm the caller. The
 * caller must keep widths and parameters in range.
 */
export interface CodecKernels {
  /** Writes the low `width` bits of a value, 0 to 32. Its other bits must be 0. Returns the end of the stream. */
  writeBits(value: number, width: number, into: BitAddress): BitAddress;

  /** Reads a value of `width` bits, 0 to 32. */
  readBits(width: number, from: BitAddress): number;

  /** {@link writeBits} for each symbol. */
  packBits(symbols: Pointer, count: number, width: number, into: BitAddress): BitAddress;

  /** {@link readBits} for each symbol. The caller must check that there are `count · width` bits. */
  unpackBits(symbols: Pointer, count: number, width: number, from: BitAddress): BitAddress;

  /**
   * The parameter for {@link riceEncode} that a search finds to take the fewest bits. It counts a code of 20 to 51 bits
   * as if there were no escape. At most 2²⁵ symbols.
   *
   * The gaps between uniformly distributed indices have a geometric distribution. Then the best parameter is close to
   * log₂ of the mean, so the search starts there.
   *
   * @param mean The mean of the symbols, rounded down. Any number is safe, but a wrong one finds worse parameters.
   * @param search 'near' goes on as long as parameters get better. 'far' tries all parameters down to 0: if a few
   *   symbols are large and most are small, the best one is far below, with worse ones in between.
   */
  riceParameter(symbols: Pointer, count: number, mean: number, search: 'near' | 'far'): number;

  /**
   * Golomb–Rice code with a parameter p of 0 to 31: the p low bits of the symbol, then as many ones as the quotient
   * symbol >> p, and a zero. After twenty ones, without a zero, the quotient follows in 32 − p bits.
   */
  riceEncode(symbols: Pointer, count: number, parameter: number, into: BitAddress): BitAddress;

  /** The symbols of {@link riceEncode}. Returns their end, or −1 if the stream ends before. */
  riceDecode(symbols: Pointer, count: number, parameter: number, from: BitAddress, until: BitAddress): BitAddress;

  /**
   * {@link riceDecode} of two streams with the same number of symbols, in little more time than one of them takes.
   * Returns the end of each, or undefined if a stream ends before.
   */
  riceDecodeBoth(count: number, a: RiceStream, b: RiceStream): [a: BitAddress, b: BitAddress] | undefined;

  /**
   * Two codes in one, for symbols of which many are small and the others far larger: a 0 and `small` bits for symbols
   * below 2^small, and a 1 and the Rice code of symbol − 2^small for the others. 0 ≤ small ≤ 31.
   */
  encodeClusters(symbols: Pointer, count: number, small: number, parameter: number, into: BitAddress): BitAddress;

  /** The symbols of {@link encodeClusters}, or −1 if the stream ends first. */
  decodeClusters(
    symbols: Pointer,
    count: number,
    small: number,
    parameter: number,
    from: BitAddress,
    until: BitAddress,
  ): BitAddress;

  /** How many symbols are less than the limit. */
  countBelow(symbols: Pointer, count: number, limit: number): number;

  /**
   * `gaps[0] = indices[0] − first`, `gaps[i] = indices[i] − indices[i − 1] − 1`. Returns the bitwise OR of all gaps.
   */
  gapsOf(indices: Pointer, count: number, first: number, gaps: Pointer): number;

  /**
   * The inverse of {@link gapsOf}. Returns the index after the last one (`first` if there is none), or −1 if an index
   * is not below elementCount. `indices` may be `gaps`.
   */
  indicesOf(gaps: Pointer, count: number, first: number, elementCount: number, indices: Pointer): number;

  /**
   * A code for the gaps of a few indices among many places. It takes only some hundredths of a bit more for each index
   * than the entropy log₂ C(places, count), if all sets are equally likely. It is a Golomb code whose parameter is the
   * median distance to the next index, computed after each bit from the indices and places that are left. It is slow:
   * one division for each bit. 1 ≤ count ≤ places < 2³⁰, and the indices must fit into the places.
   */
  encodeSubset(gaps: Pointer, count: number, places: number, into: BitAddress): BitAddress;

  /** The gaps of {@link encodeSubset}; the indices fit into the places. −1 if the stream ends before. */
  decodeSubset(gaps: Pointer, count: number, places: number, from: BitAddress, until: BitAddress): BitAddress;

  /** One bit for each place, up to the last index. */
  encodeBitmap(gaps: Pointer, count: number, into: BitAddress): BitAddress;

  /** The gaps of `span` bits; −1 if they are not `count`. The caller must check that there are so many bits. */
  decodeBitmap(gaps: Pointer, count: number, span: number, from: BitAddress): BitAddress;

  /** Writes the symbols of values, and overwrites the values with what {@link dequantize} makes of the symbols. */
  quantize(values: Pointer, count: number, quantization: Quantization, symbols: Pointer): SymbolRange;

  /**
   * Writes the symbols of a block of values (see ValueCode in ../compression/value-format.ts), at least one, in the
   * code that takes the fewest bits. The symbols are overwritten.
   *
   * @param range The range of the symbols.
   * @param magnitudeBits The most bits of a symbol, without the sign.
   */
  encodeSymbols(
    symbols: Pointer,
    count: number,
    range: SymbolRange,
    magnitudeBits: number,
    into: BitAddress,
  ): BitAddress;

  /**
   * The values of symbols, all finite. Returns false, with meaningless values, if a symbol does not belong to the
   * format. `values` may be `symbols`.
   */
  dequantize(symbols: Pointer, count: number, quantization: Quantization, values: Pointer): boolean;

  /** The largest magnitude of float32 values; 0 if there are none. */
  largestMagnitude(values: Pointer, count: number): Magnitude;

  /** The smallest magnitude that is not 0, or 0. */
  smallestMagnitude(values: Pointer, count: number): Magnitude;

  /** Adds to the magnitudes of symbols, modulo 2³¹. The signs stay. */
  raiseSymbols(symbols: Pointer, count: number, magnitude: number): void;

  /** Each magnitude m of a symbol becomes `magnitude` − m, modulo 2³¹. The signs stay. It is its own inverse. */
  mirrorSymbols(symbols: Pointer, count: number, magnitude: number): void;
}

/** The part of assembly/index.ts for the codecs. A result that is an i32 is signed: as a u32 it needs `>>> 0`. */
export interface CodecExports extends Omit<
  CodecKernels,
  'riceParameter' | 'riceDecodeBoth' | 'quantize' | 'encodeSymbols' | 'dequantize'
> {
  riceParameter: (symbols: number, count: number, mean: number, far: boolean) => number;
  riceDecodeBoth: (...numbers: number[]) => number;
  secondEnd: { value: number };
  quantizeFloat32: (values: number, count: number, symbols: number) => number;
  quantizeFloat16: (values: number, count: number, exponent: number, symbols: number) => number;
  quantizeBfloat16: (values: number, count: number, symbols: number) => number;
  quantizeInt8: (values: number, count: number, scale: number, symbols: number) => number;
  quantizeLevels: (values: number, count: number, levels: number, symbols: number) => number;
  encodeSymbols: (...numbers: number[]) => number;
  dequantizeFloat32: (symbols: number, count: number, values: number) => number;
  dequantizeFloat16: (symbols: number, count: number, exponent: number, values: number) => number;
  dequantizeBfloat16: (symbols: number, count: number, values: number) => number;
  dequantizeInt8: (symbols: number, count: number, scale: number, values: number) => number;
  dequantizeLevels: (symbols: number, count: number, levels: number, values: number) => number;
  smallestSymbol: { value: number };
  largestSymbol: { value: number };
}

/** The kernels of the codecs, for one instance of the module. */
export function codecKernels(wasm: CodecExports): CodecKernels {
  return {
    writeBits: wasm.writeBits,
    readBits: wasm.readBits,
    packBits: wasm.packBits,
    unpackBits: wasm.unpackBits,
    riceParameter: (symbols, count, mean, search) => wasm.riceParameter(symbols, count, mean, search === 'far'),
    riceEncode: wasm.riceEncode,
    riceDecode: wasm.riceDecode,
    riceDecodeBoth: (count, a, b) => {
      const first = wasm.riceDecodeBoth(
        count,
        a.symbols,
        a.parameter,
        a.from,
        a.until,
        b.symbols,
        b.parameter,
        b.from,
        b.until,
      );
      return first === -1 ? undefined : [first, wasm.secondEnd.value];
    },
    encodeClusters: wasm.encodeClusters,
    decodeClusters: wasm.decodeClusters,
    countBelow: wasm.countBelow,
    gapsOf: wasm.gapsOf,
    indicesOf: wasm.indicesOf,
    encodeSubset: wasm.encodeSubset,
    decodeSubset: wasm.decodeSubset,
    encodeBitmap: wasm.encodeBitmap,
    decodeBitmap: wasm.decodeBitmap,
    quantize: (values, count, quantization, symbols) => {
      const sum = quantize(wasm, values, count, quantization, symbols);
      return { smallest: wasm.smallestSymbol.value >>> 0, largest: wasm.largestSymbol.value >>> 0, sum };
    },
    encodeSymbols: (symbols, count, { smallest, largest, sum }, magnitudeBits, into) =>
      wasm.encodeSymbols(symbols, count, smallest, largest, sum, magnitudeBits, into),
    dequantize: (symbols, count, quantization, values) => {
      switch (quantization.format) {
        case 'float32':
          return wasm.dequantizeFloat32(symbols, count, values) !== 0;
        case 'float16':
          return wasm.dequantizeFloat16(symbols, count, quantization.exponent, values) !== 0;
        case 'bfloat16':
          return wasm.dequantizeBfloat16(symbols, count, values) !== 0;
        case 'int8':
          return wasm.dequantizeInt8(symbols, count, quantization.scale, values) !== 0;
        case 'log4':
          return wasm.dequantizeLevels(symbols, count, quantization.levels, values) !== 0;
      }
    },
    largestMagnitude: wasm.largestMagnitude,
    smallestMagnitude: wasm.smallestMagnitude,
    raiseSymbols: wasm.raiseSymbols,
    mirrorSymbols: wasm.mirrorSymbols,
  };
}

function quantize(
  wasm: CodecExports,
  values: number,
  count: number,
  quantization: Quantization,
  symbols: number,
): number {
  switch (quantization.format) {
    case 'float32':
      return wasm.quantizeFloat32(values, count, symbols);
    case 'float16':
      return wasm.quantizeFloat16(values, count, quantization.exponent, symbols);
    case 'bfloat16':
      return wasm.quantizeBfloat16(values, count, symbols);
    case 'int8':
      return wasm.quantizeInt8(values, count, quantization.scale, symbols);
    case 'log4':
      return wasm.quantizeLevels(values, count, quantization.levels, symbols);
  }
}
