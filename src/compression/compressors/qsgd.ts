import { malformed } from '../bit-stream';
import type { Compressor } from './compressor';
import { eliasBits, MessageReader, MessageWriter } from './message-bits';

/** The options of {@link qsgdCompressor}, checked. */
export interface QsgdNumbers {
  readonly levels: number;
  readonly bucket: number;
}

/**
 * QSGD (Alistarh et al., NIPS 2017, section 3.1): each bucket of consecutive values (section 4) has its Euclidean norm,
 * and each value v becomes norm · sign(v) · l/s with a whole l from 0 to s, rounded at random so that the mean is v.
 * Nothing is kept for the next step.
 *
 * On the wire (section 3.1): the norm as float32, and then, for each value that is not 0, the distance from the one
 * before, the sign, and l, both numbers in Elias's omega code. If most values are not 0, l + 1 of each value and its
 * sign instead ("Code'", appendix A.3). Each bucket takes the shorter one.
 */
export function qsgdCompressor({ levels, bucket }: QsgdNumbers): Compressor {
  return {
    errorFeedback: false,
    async average({ values, mean, random }, ring) {
      const own = encodeQuantized(values, { levels, bucket }, random);
      await ring.gather(own, message => addQuantized(message, { levels, bucket }, mean));
      for (let i = 0; i < mean.length; i++) mean[i]! /= ring.worldSize;
    },
  };
}

/** The message for values, which are rounded at random. */
export function encodeQuantized(
  values: Float32Array,
  { levels, bucket }: QsgdNumbers,
  random: () => number,
): Uint8Array {
  const writer = new MessageWriter();
  for (let start = 0; start < values.length; start += bucket) {
    encode(values.subarray(start, start + bucket), levels, random, writer);
  }
  return writer.finish();
}

function encode(values: Float32Array, levels: number, random: () => number, writer: MessageWriter): void {
  // Of the largest finite values the norm is larger than they are. They are no larger than that, so levels are at most
  // s.
  let squares = 0;
  for (let i = 0; i < values.length; i++) squares += values[i]! * values[i]!;
  const norm = Math.min(LARGEST, Math.fround(Math.sqrt(squares)));
  writer.float32(norm);
  if (norm === 0) return;
  const rounded = new Int32Array(values.length);
  for (let i = 0; i < values.length; i++) {
    const level = (Math.abs(values[i]!) / norm) * levels;
    const low = Math.floor(level);
    const whole = Math.min(levels, low + Number(random() < level - low));
    rounded[i] = values[i]! < 0 ? -whole : whole;
  }
  const isDense = denseBits(rounded) < sparseBits(rounded);
  writer.bits(Number(isDense), 1);
  let gap = 1;
  for (let i = 0; i < rounded.length; i++) {
    const level = rounded[i]!;
    if (isDense) writer.elias(Math.abs(level) + 1);
    else if (level === 0) gap++;
    else {
      writer.elias(gap);
      writer.elias(Math.abs(level));
      gap = 1;
    }
    if (level !== 0) writer.bits(Number(level < 0), 1);
  }
  if (!isDense) writer.elias(gap); // past the end of the bucket
}

function denseBits(rounded: Int32Array): number {
  let bits = 0;
  for (let i = 0; i < rounded.length; i++) bits += eliasBits(Math.abs(rounded[i]!) + 1) + Number(rounded[i] !== 0);
  return bits;
}

function sparseBits(rounded: Int32Array): number {
  let bits = 0;
  let gap = 1;
  for (let i = 0; i < rounded.length; i++) {
    if (rounded[i] === 0) gap++;
    else {
      bits += eliasBits(gap) + eliasBits(Math.abs(rounded[i]!)) + 1;
      gap = 1;
    }
  }
  return bits + eliasBits(gap);
}

/** The largest finite float32. */
const LARGEST = 3.4028234663852886e38;

/**
 * Adds the values in a message to the sums.
 *
 * @throws GradringError `ERR_PROTOCOL` if it holds something else.
 */
export function addQuantized(message: Uint8Array, { levels, bucket }: QsgdNumbers, sums: Float32Array): void {
  const reader = new MessageReader(message);
  for (let start = 0; start < sums.length; start += bucket) {
    add(reader, levels, sums.subarray(start, start + bucket));
  }
  reader.finish();
}

/** Adds the values of a bucket to the sums. */
function add(reader: MessageReader, levels: number, sums: Float32Array): void {
  const norm = reader.float32();
  if (norm < 0) throw malformed('holds a negative norm');
  if (norm === 0) return;
  const isDense = reader.bits(1) === 1;
  for (let i = 0; i < sums.length; i++) {
    if (!isDense) i += reader.elias() - 1;
    if (i > sums.length) throw malformed('holds a value behind the end of its bucket');
    if (i === sums.length) return;
    const level = reader.elias() - Number(isDense);
    if (level > levels) throw malformed(`holds level ${level} of ${levels}`);
    if (level > 0) sums[i]! += (reader.bits(1) === 1 ? -norm : norm) * (level / levels);
    if (!isDense && i === sums.length - 1 && reader.elias() !== 1) throw malformed('holds a bucket that is too long');
  }
}
