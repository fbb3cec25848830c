import { malformed } from '../bit-stream';
import type { Compressor } from './compressor';
import { MessageReader, MessageWriter } from './message-bits';

/**
 * 1-bit SGD (Seide et al., Interspeech 2014, section 3): each value is sent as one bit, whether it is at least
 * 0. Each column has two numbers, the means of its values that are below 0 and of the others, which the receivers take
 * for them. What that loses is added to the next gradient. A column has all elements with the same last index: those of
 * one unit.
 *
 * In the paper each node adds up a part of the gradient and sends the sum, in one bit a value again. Here the messages
 * of all ranks go round the ring, so each value is rounded once only.
 */
export function oneBitCompressor(): Compressor {
  return {
    errorFeedback: true,
    async average({ shape, values, mean, sent }, ring) {
      const columns = shape.at(-1)!;
      const own = encodeOneBit(values, columns);
      sent.set(decodeOneBit(own, values.length, columns));
      await ring.gather(own, message => {
        const decoded = decodeOneBit(message, values.length, columns);
        for (let i = 0; i < mean.length; i++) mean[i]! += decoded[i]!;
      });
      for (let i = 0; i < mean.length; i++) mean[i]! /= ring.worldSize;
    },
  };
}

/** The message for values of this many columns. */
export function encodeOneBit(values: Float32Array, columns: number): Uint8Array {
  const writer = new MessageWriter();
  const sums = new Float64Array(2 * columns);
  const counts = new Uint32Array(2 * columns);
  for (let i = 0; i < values.length; i++) {
    const place = 2 * (i % columns) + Number(values[i]! >= 0);
    sums[place]! += values[i]!;
    counts[place]!++;
  }
  sums.forEach((sum, place) => writer.float32(counts[place] === 0 ? 0 : sum / counts[place]!));
  for (const value of values) writer.bits(Number(value >= 0), 1);
  return writer.finish();
}

/**
 * The values that a message of this many columns stands for.
 *
 * @throws GradringError `ERR_PROTOCOL` if it holds something else.
 */
export function decodeOneBit(message: Uint8Array, length: number, columns: number): Float32Array {
  if (message.length !== 8 * columns + Math.ceil(length / 8)) throw malformed('holds a message of another length');
  const reader = new MessageReader(message);
  const means = Float32Array.from({ length: 2 * columns }, () => reader.float32());
  const values = new Float32Array(length);
  for (let i = 0; i < length; i++) values[i] = means[2 * (i % columns) + reader.bits(1)]!;
  reader.finish();
  return values;
}
