import type { Quantization } from '../kernels/codec-kernels';
import type { KernelMemory } from '../kernel-memory';
import type { Kernels, Magnitude, Pointer } from '../kernels/kernels';
import { type BitReader, type BitWriter, malformed, type RicePair } from './bit-stream';

/**
 * How values are sent. All formats but float32 lose something, which the sender keeps and sends later.
 *
 * - `float16`: 11 significant bits. Each tensor is scaled by a power of two that brings its largest value near the top
 *   of the range.
 * - `bfloat16`: 8 significant bits.
 * - `int8`: multiples of 1/127 of the tensor's largest magnitude.
 * - `log4`: a sign and 3 bits: zero, or one of seven levels up to the tensor's largest magnitude, with 1 to 8 levels an
 *   octave.
 */
export type ValueFormat = 'float32' | 'float16' | 'bfloat16' | 'int8' | 'log4';

/** All formats. */
export const VALUE_FORMATS: readonly ValueFormat[] = ['float32', 'float16', 'bfloat16', 'int8', 'log4'];

/** Bits of a magnitude, without the sign. */
export const MAGNITUDE_BITS: Record<ValueFormat, number> = { float32: 31, float16: 15, bfloat16: 15, int8: 7, log4: 3 };

/** Scratch of {@link quantizationOf} and {@link readQuantization} for the levels of log4. A multiple of 16. */
export const LEVELS_BYTES = 32;

/** Exponents of the float16 scale, −113 to 126, are written with this added. */
const EXPONENT_BIAS = 128;
const EXPONENT_BITS = 8;
const LARGEST_EXPONENT = 126;
/** That of the largest float32, which brings it below 2¹⁵. */
const SMALLEST_EXPONENT = -113;

/** The smallest normal float32. */
const SMALLEST_SCALE = 2 ** -126;
const LARGEST_FLOAT32_BITS = 0x7f7fffff;
const SMALLEST_NORMAL_BITS = 0x00800000;

/** An octave has 1, 2, 4 or 8 levels of log4. Their logarithm is written. */
const DENSITY_BITS = 2;
const LEVELS = 7;
/** 2^(−i/8) as float32: all machines have the same levels. */
const EIGHTHS = [1, 0.917004, 0.8408964, 0.77110541, 0.70710678, 0.64841978, 0.59460356, 0.54525387].map(Math.fround);

/** The values of a tensor that are sent. */
interface ScaledValues {
  readonly values: Pointer;
  readonly count: number;
  /** Their largest magnitude, if it is known. */
  readonly largest?: Magnitude | undefined;
}

/** Chooses what a tensor's values are scaled by in a format, and writes it. */
export function quantizationOf(
  kernels: Kernels,
  memory: KernelMemory,
  format: ValueFormat,
  { values, count, largest: known }: ScaledValues,
  levels: Pointer,
  writer: BitWriter,
): Quantization {
  if (format === 'float32' || format === 'bfloat16') return { format };
  const largestMagnitude = known ?? kernels.largestMagnitude(values, count);
  switch (format) {
    case 'float16': {
      // A float32 with exponent field e is less than 2^(e − 126), a subnormal one less than 2⁻¹²⁶.
      const exponent = Math.min(LARGEST_EXPONENT, 15 - (Math.max(1, largestMagnitude >>> 23) - 126));
      writer.write(exponent + EXPONENT_BIAS, EXPONENT_BITS);
      return { format, exponent };
    }
    case 'int8': {
      const largest = float32Of(largestMagnitude);
      const scale = Math.max(Math.fround(largest / 127), SMALLEST_SCALE);
      writer.write(bitsOf(scale), 32);
      return { format, scale };
    }
    case 'log4': {
      const largest = float32Of(largestMagnitude);
      const smallest = float32Of(kernels.smallestMagnitude(values, count));
      // As dense as possible, as long as the levels reach down to the smallest value.
      let density = 3;
      while (density > 0 && level(largest, density, 1) > smallest) density--;
      writer.write(bitsOf(largest), 32);
      writer.write(density, DENSITY_BITS);
      writeLevels(memory, levels, largest, density);
      return { format, levels };
    }
  }
}

/** Reads what {@link quantizationOf} wrote. @throws ERR_PROTOCOL for a scale that no encoder writes. */
export function readQuantization(
  memory: KernelMemory,
  format: ValueFormat,
  levels: Pointer,
  reader: BitReader,
): Quantization {
  switch (format) {
    case 'float32':
    case 'bfloat16':
      return { format };
    case 'float16': {
      const exponent = reader.read(EXPONENT_BITS) - EXPONENT_BIAS;
      if (exponent < SMALLEST_EXPONENT || exponent > LARGEST_EXPONENT) throw malformed('holds a scale out of range');
      return { format, exponent };
    }
    case 'int8': {
      const bits = reader.read(32);
      if (bits < SMALLEST_NORMAL_BITS || bits > LARGEST_FLOAT32_BITS) throw malformed('holds a scale out of range');
      return { format, scale: float32Of(bits) };
    }
    case 'log4': {
      const bits = reader.read(32);
      if (bits > LARGEST_FLOAT32_BITS) throw malformed('holds a scale out of range');
      writeLevels(memory, levels, float32Of(bits), reader.read(DENSITY_BITS));
      return { format, levels };
    }
  }
}

/** Level 7 is the largest magnitude, each level below it is smaller by 2^(−1/2^density), level 0 is 0. */
function level(largest: number, density: number, number: number): number {
  if (number === 0) return 0;
  const eighths = (LEVELS - number) << (3 - density);
  return Math.fround(largest * EIGHTHS[eighths & 7]! * 2 ** -(eighths >> 3));
}

function writeLevels(memory: KernelMemory, at: Pointer, largest: number, density: number): void {
  new Float32Array(memory.buffer, at, LEVELS + 1).forEach((_, i, all) => (all[i] = level(largest, density, i)));
}

/** The bits of a float32. */
export function bitsOf(value: number): number {
  return new Uint32Array(Float32Array.of(value).buffer)[0]!;
}

/** The float32 of bits. */
export function float32Of(bits: number): number {
  return new Float32Array(Uint32Array.of(bits).buffer)[0]!;
}

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
  /** Distances from the largest magnitude, downwards, written as in Rising. */
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
