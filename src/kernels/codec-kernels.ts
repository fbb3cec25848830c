import type { Magnitude } from './magnitude';
import type { Pointer } from './pointer';

/**
 * A place in a stream of bits: 8 · pointer + bit, bit 0 being the lowest of a byte. Below 2³⁵, so exact as a number.
 *
 * Writers keep the bits before it, and may overwrite all that follows what they write, up to
 * {@link STREAM_SLACK_BYTES} past it; readers may read as far. That much room must lie behind every stream.
 */
export type BitAddress = number;

/** Room that must lie behind a stream of bits. */
export const STREAM_SLACK_BYTES = 16;

/**
 * How values become symbols: a symbol is a magnitude in a format that is mostly coarser than float32, doubled, plus 1
 * for negative values (−0 too).
 *
 * - float32: the 31 bits without the sign, nothing lost.
 * - bfloat16: the upper 15 bits of these, rounded; at most 0x7f7f, the largest finite one.
 * - float16: the 15 bits of |value| · 2^exponent as a float16, rounded, at most 0x77ff. −126 ≤ exponent ≤ 126.
 * - int8: |value| / scale rounded, at most 127. 2⁻¹²⁶ ≤ scale, finite.
 * - log4: the number, 0 to 7, of the level that is nearest. `levels` are eight float32: 0, then ascending.
 *
 * Halves round to even, and at log4 down; so what is sent is never more than twice the value, and value − sent is exact
 * in float32 (Sterbenz) wherever value ≤ 2 · the largest that the format can say.
 */
export type Quantization =
  | { readonly format: 'float32' | 'bfloat16' }
  | { readonly format: 'float16'; readonly exponent: number }
  | { readonly format: 'int8'; readonly scale: number }
  | { readonly format: 'log4'; readonly levels: Pointer };

/** What {@link CodecKernels.quantize} tells of its symbols. */
export interface SymbolRange {
  /** 2³² − 1 where there are none. */
  readonly smallest: number;
  /** 0 where there are none. */
  readonly largest: number;
  readonly sum: number;
}

/** What {@link CodecKernels.riceDecode} takes. */
export interface RiceStream {
  readonly symbols: Pointer;
  readonly parameter: number;
  readonly from: BitAddress;
  readonly until: BitAddress;
}

/**
 * The tight loops of the codecs, a part of {@link Kernels}: numbers to bits and back. What they make is the wire format
 * of docs/wire-format.md.
 *
 * A *symbol* is a uint32. Arrays of symbols, indices and values are 4-byte aligned. Indices are those of distinct
 * elements of a tensor, ascending. What decoders read may be anything: they read nothing beyond `until` and the slack,
 * write nothing but `count` entries, and return −1 or false for what no encoder writes and the caller could not bear.
 * Widths and parameters are the caller's to keep in range.
 */
export interface CodecKernels {
  /** Writes the low `width` bits of a value that has no others. 0 ≤ width ≤ 32. Returns where it ends. */
  writeBits(value: number, width: number, into: BitAddress): BitAddress;

  /** Reads a value of `width` bits, 0 to 32. */
  readBits(width: number, from: BitAddress): number;

  /** {@link writeBits} for each symbol. */
  packBits(symbols: Pointer, count: number, width: number, into: BitAddress): BitAddress;

  /** {@link readBits} for each symbol; the caller knows that `count · width` bits are there. */
  unpackBits(symbols: Pointer, count: number, width: number, from: BitAddress): BitAddress;

  /**
   * The parameter for {@link riceEncode} that takes the fewest bits, as far as a search finds it, but that a code which
   * would have 20 to 51 bits is counted as if nothing escaped. At most 2²⁵ symbols.
   *
   * For a geometric distribution, that of gaps between uniformly placed indices, the best is next to log₂ of the mean,
   * so the search starts there.
   *
   * @param mean That of the symbols, rounded off; anything that is not a number below 2³² finds worse parameters.
   * @param search 'near' goes on only while it gets better. 'far' tries all parameters down to 0: where a few symbols
   *   are large and most are small, the best is far below, with worse ones in between.
   */
  riceParameter(symbols: Pointer, count: number, mean: number, search: 'near' | 'far'): number;

  /**
   * Golomb–Rice code with a parameter p of 0 to 31: the p low bits of the symbol, then the quotient symbol >> p as so
   * many ones and a zero. Twenty ones, without a zero, mean that the quotient follows in 32 − p bits.
   */
  riceEncode(symbols: Pointer, count: number, parameter: number, into: BitAddress): BitAddress;

  /** The symbols of {@link riceEncode}. Returns where they end, or −1 if the stream does first. */
  riceDecode(symbols: Pointer, count: number, parameter: number, from: BitAddress, until: BitAddress): BitAddress;

  /**
   * {@link riceDecode} of two streams that have as many symbols, in hardly more time than one of them takes. Returns
   * where each ends; undefined if either stream does first.
   */
  riceDecodeBoth(count: number, a: RiceStream, b: RiceStream): [a: BitAddress, b: BitAddress] | undefined;

  /**
   * Two codes in one, for symbols of which many are small and the others far larger: a 0 and `small` bits for those
   * below 2^small, a 1 and the Rice code of symbol − 2^small for the others. 0 ≤ small ≤ 31.
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
   * `gaps[0] = indices[0] − first`, `gaps[i] = indices[i] − indices[i − 1] − 1`. Returns all gaps, or-ed bit by bit.
   */
  gapsOf(indices: Pointer, count: number, first: number, gaps: Pointer): number;

  /**
   * The inverse of {@link gapsOf}. Returns the index after the last (at first, `first`), or −1 if one is not below
   * elementCount. `indices` may be `gaps`.
   */
  indicesOf(gaps: Pointer, count: number, first: number, elementCount: number, indices: Pointer): number;

  /**
   * A code for the gaps of few indices among so many places, within a few hundredths of a bit an index of the
   * entropy log₂ C(places, count) if all sets are alike likely: a Golomb code whose parameter is the median distance of
   * the next index, found anew after each bit from the indices and places that are left. A division a bit: slow.
   * 1 ≤ count ≤ places < 2³⁰, and the gaps leave room for all.
   */
  encodeSubset(gaps: Pointer, count: number, places: number, into: BitAddress): BitAddress;

  /** The gaps of {@link encodeSubset}, which leave room for all, or −1 if the stream ends first. */
  decodeSubset(gaps: Pointer, count: number, places: number, from: BitAddress, until: BitAddress): BitAddress;

  /** A bit a place, up to the last index. */
  encodeBitmap(gaps: Pointer, count: number, into: BitAddress): BitAddress;

  /** The gaps of `span` bits, which the caller knows to be there; −1 if they are not `count`. */
  decodeBitmap(gaps: Pointer, count: number, span: number, from: BitAddress): BitAddress;

  /** Writes the symbols of values, and over the values what {@link dequantize} will make of these. */
  quantize(values: Pointer, count: number, quantization: Quantization, symbols: Pointer): SymbolRange;

  /**
   * Writes the symbols of a block of values (see ValueCode in ../compression/value-codec.ts), at least one, in the code
   * that takes the fewest bits, and leaves anything in their place.
   *
   * @param range That of the symbols.
   * @param magnitudeBits That they have at most, without the sign.
   */
  encodeSymbols(
    symbols: Pointer,
    count: number,
    range: SymbolRange,
    magnitudeBits: number,
    into: BitAddress,
  ): BitAddress;

  /**
   * The values of symbols, all finite; false, and values that mean nothing, if a symbol is none of the format. `values`
   * may be `symbols`.
   */
  dequantize(symbols: Pointer, count: number, quantization: Quantization, values: Pointer): boolean;

  /** The largest magnitude of float32 values, 0 where there are none. */
  largestMagnitude(values: Pointer, count: number): Magnitude;

  /** The smallest magnitude that is not 0, or 0. */
  smallestMagnitude(values: Pointer, count: number): Magnitude;

  /** Adds to the magnitudes of symbols, modulo 2³¹; the signs stay. */
  raiseSymbols(symbols: Pointer, count: number, magnitude: number): void;

  /** Each magnitude m of a symbol becomes `magnitude` − m, modulo 2³¹; the signs stay. Its own inverse. */
  mirrorSymbols(symbols: Pointer, count: number, magnitude: number): void;
}
