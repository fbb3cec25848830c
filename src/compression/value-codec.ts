import type { Quantization } from '../kernels/codec-kernels';
import type { Kernels, Pointer } from '../kernels/kernels';
import { type BitReader, type BitWriter, malformed, type RicePair } from './bit-stream';
import { MAGNITUDE_BITS } from './value-format';

/**
 * How a block of symbols is written. Two bits name the code. In all codes but Plain a base follows, a magnitude.
 *
 * The largest values of a sparse tensor are sent: many just above the threshold, few far above. So their distances from
 * the smallest are almost geometrically distributed. In a dense tensor most values are small, and in a floating-point
 * format the distances from the largest are distributed like that.
 */
enum ValueCode {
  /** Distances from the smallest magnitude, with the sign as the lowest bit, in Rice code. 5 bits: the parameter. */
  Rising,
  /** The same, from the largest downwards. */
  Falling,
  /** Like Rising, each in as many bits as the widest. 6 bits: how many. */
  Fixed,
  /** The symbols, each in as many bits as the format has. */
  Plain,
}

const CODE_BITS = 2;
const PARAMETER_BITS = 5;
const WIDTH_BITS = 6;

/**
 * Appends a block of values, in the code that takes the fewest bits, and replaces them by what {@link finishValues}
 * will return. A block has 1 to {@link BLOCK_ENTRIES} values. `symbols` is scratch for as many uint32.
 */
export function encodeValues(
  kernels: Kernels,
  values: Pointer,
  count: number,
  quantization: Quantization,
  symbols: Pointer,
  writer: BitWriter,
): void {
  const range = kernels.quantize(values, count, quantization, symbols);
  writer.at = kernels.encodeSymbols(symbols, count, range, MAGNITUDE_BITS[quantization.format], writer.at);
}

/** What the symbols of a block are distances from. */
export interface ValueBase {
  readonly magnitude: number;
  /** Whether they count downwards from it. */
  readonly falling: boolean;
}

const PLAIN: ValueBase = { magnitude: 0, falling: false };

/**
 * Reads the symbols of a block. Those in Rice code may wait in `codes`.
 *
 * @throws ERR_PROTOCOL if the stream ends too early, or holds something else.
 */
export function readSymbols(
  kernels: Kernels,
  reader: BitReader,
  count: number,
  quantization: Quantization,
  codes: RicePair,
  symbols: Pointer,
): ValueBase {
  const baseBits = MAGNITUDE_BITS[quantization.format];
  const code: ValueCode = reader.read(CODE_BITS);
  if (code === ValueCode.Plain) {
    unpack(kernels, reader, count, baseBits + 1, symbols);
    return PLAIN;
  }
  const magnitude = reader.read(baseBits);
  if (code === ValueCode.Fixed) {
    const width = reader.read(WIDTH_BITS);
    if (width > 32) throw malformed('holds values of more than 32 bits');
    unpack(kernels, reader, count, width, symbols);
  } else {
    const parameter = reader.read(PARAMETER_BITS);
    codes.read(symbols, count, parameter, reader);
  }
  return { magnitude, falling: code === ValueCode.Falling };
}

/**
 * Turns the symbols of a block into values, in place, all finite.
 *
 * @throws ERR_PROTOCOL if one would not be finite.
 */
export function finishValues(
  kernels: Kernels,
  count: number,
  quantization: Quantization,
  { magnitude, falling }: ValueBase,
  symbols: Pointer,
): void {
  if (falling) kernels.mirrorSymbols(symbols, count, magnitude);
  else if (magnitude !== 0) kernels.raiseSymbols(symbols, count, magnitude);
  if (!kernels.dequantize(symbols, count, quantization, symbols)) throw malformed('holds a value out of range');
}

function unpack(kernels: Kernels, reader: BitReader, count: number, width: number, symbols: Pointer): void {
  const from = reader.at;
  reader.advance(from + width * count);
  kernels.unpackBits(symbols, count, width, from);
}
