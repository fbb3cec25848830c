import { malformed } from '../bit-stream';
import type { Compressor } from './compressor';
import { MessageReader, MessageWriter } from './message-bits';

/** Values further from 0 than this many standard deviations are clipped (c of the paper). */
const CLIP = 2.5;

/** So many values share a parameter of the Rice code. */
const BLOCK = 4096;
const PARAMETER_BITS = 4;

/**
 * TernGrad (Wen et al., NIPS 2017, section 3): a value g becomes s · sign(g) with the probability |g|/s, and else 0
 * (the paper's ternarize(g) = s · sign(g) ∘ b, equations 1 to 3). s is the largest magnitude of the tensor ("layer-wise
 * ternarizing"), over all ranks ("scaler sharing"). Before that, values are clipped to 2.5 standard deviations
 * ("gradient clipping"). Nothing is kept for the next step. Except for what is clipped, the mean is right.
 *
 * The paper takes the values for normal ones around 0. The authors' code clips by the deviation from the tensor's mean
 * (`clip_gradients_by_stddev` in github.com/wenwei202/terngrad), and so does this. If the mean is far from 0 beside the
 * deviation, nearly all values are clipped; if all are equal, the deviation is 0, and nothing is left of them.
 *
 * On the wire: for each value that is not 0 the distance from the one before, in Rice code, and its sign.
 */
export function ternGradCompressor(): Compressor {
  return {
    errorFeedback: false,
    async average({ values, mean, random }, ring) {
      const limit = Math.fround(CLIP * standardDeviation(values));
      let largest = 0;
      for (const value of values) largest = Math.max(largest, Math.abs(value));
      const scale = (await ring.largest(Float32Array.of(Math.min(limit, largest))))[0]!;
      const signs = new Int8Array(values.length);
      for (let i = 0; i < signs.length; i++) {
        const value = values[i]!;
        if (random() * scale < Math.min(limit, Math.abs(value))) signs[i] = Math.sign(value);
      }
      await ring.gather(encodeSigns(signs), message => addSigns(message, mean));
      for (let i = 0; i < mean.length; i++) mean[i]! *= scale / ring.worldSize;
    },
  };
}

/** The standard deviation of the values from their mean. */
function standardDeviation(values: Float32Array): number {
  let [sum, squares] = [0, 0];
  for (const value of values) {
    sum += value;
    squares += value * value;
  }
  const average = sum / values.length;
  return Math.sqrt(Math.max(0, squares / values.length - average * average));
}

/** The message for values that are −1, 0 or 1. */
export function encodeSigns(signs: Int8Array): Uint8Array {
  const writer = new MessageWriter();
  for (let start = 0; start < signs.length; start += BLOCK) {
    const block = signs.subarray(start, start + BLOCK);
    let count = 0;
    for (const sign of block) count += Math.abs(sign);
    const p = riceParameter(block.length, count);
    writer.bits(p, PARAMETER_BITS);
    let gap = 0;
    for (const sign of block) {
      if (sign === 0) {
        gap++;
        continue;
      }
      writer.rice(gap, p);
      writer.bits(Number(sign < 0), 1);
      gap = 0;
    }
    if (gap > 0) writer.rice(gap, p); // past the end of the block
  }
  return writer.finish();
}

/**
 * Adds the signs in a message to the sums.
 *
 * @throws GradringError `ERR_PROTOCOL` if it holds something else.
 */
export function addSigns(message: Uint8Array, sums: Float32Array): void {
  const reader = new MessageReader(message);
  for (let start = 0; start < sums.length; start += BLOCK) {
    const end = Math.min(sums.length, start + BLOCK);
    const p = reader.bits(PARAMETER_BITS);
    for (let i = start; i < end; i++) {
      i += reader.rice(p);
      if (i > end) throw malformed('holds a value behind the end of its tensor');
      if (i < end) sums[i]! += reader.bits(1) === 1 ? -1 : 1;
    }
  }
  reader.finish();
}

/** The parameter of the Rice code that takes the fewest bits for gaps between `count` random places of `length`. */
function riceParameter(length: number, count: number): number {
  let best = 0;
  const bits = (p: number) => count * (p + 1) + length / 2 ** p;
  while (best < 12 && bits(best + 1) < bits(best)) best++;
  return best;
}
