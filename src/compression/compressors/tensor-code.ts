import { type BitReader, type BitWriter, malformed } from '../bit-stream';
import { bitsOf, float32Of } from '../value-format';

/** A code of the values of one tensor. It works in scratch that all tensors share, one after the other. */
export interface TensorCode {
  /**
   * The message for values.
   *
   * @param random Numbers from 0 up to but not including 1.
   */
  encode(values: Float32Array, random: () => number): Uint8Array;
  /** Begins a sum. */
  clear(): void;
  /**
   * Adds the values of a message to the sum.
   *
   * @throws ERR_PROTOCOL if it holds something else.
   */
  add(message: Uint8Array): void;
  /** Writes the sum times a factor. */
  take(into: Float32Array, factor: number): void;
}

/**
 * The codes of the tensors of a model. They keep nothing from one message to the next, so any thread may code any
 * tensor, each with codes of its own.
 */
export interface TensorCodes {
  /**
   * How many bits the message of a tensor is expected to have.
   *
   * @param isSmall Whether the tensor has one dimension, or few elements.
   */
  messageBits(shape: readonly number[], isSmall: boolean): number;
  /** The code of a tensor. It is valid until the next one is made. */
  code(shape: readonly number[], isSmall: boolean): TensorCode;
}

/** What the whole numbers of a message are multiplied by: a positive float32, or 0 for nothing. */
export function writeScale(scale: number, writer: BitWriter): void {
  writer.write(bitsOf(scale), 32);
}

/** Whether products of a scale with whole numbers of that magnitude are finite, even if so many are added. */
export function isInRange(scale: number, largest: number, count = 1): boolean {
  return scale * largest * count <= LARGEST_FLOAT32;
}

const LARGEST_FLOAT32 = 3.4028234663852886e38;

/** @throws ERR_PROTOCOL if it is negative or not finite. */
export function readScale(reader: BitReader): number {
  const scale = float32Of(reader.read(32));
  if (!(scale >= 0 && scale < Infinity)) throw malformed('holds a scale out of range');
  return scale;
}
