import { type CodeScratch, LARGEST_INTEGER } from './code-scratch';
import { malformed } from '../bit-stream';
import { isInRange, readScale, type TensorCode, writeScale } from './tensor-code';

/**
 * All values of a tensor, rounded to multiples of a step. The message: the step, and the whole numbers. The value of a
 * scalar is the step, so it loses nothing.
 */
export class WholeCode implements TensorCode {
  private readonly integers: Float32Array;
  private readonly sums: Float32Array;

  constructor(
    private readonly scratch: CodeScratch,
    length: number,
    /** In root mean squares of the values. */
    private readonly step: number,
  ) {
    const [integers, sums] = scratch.places(length, length);
    this.integers = scratch.at(integers, length);
    this.sums = scratch.at(sums, length);
  }

  encode(values: Float32Array): Uint8Array {
    const { integers, scratch } = this;
    const { writer } = scratch;
    const step = values.length === 1 ? Math.abs(values[0]!) : Math.fround(this.step * rootMeanSquare(values));
    writer.start();
    writeScale(step, writer);
    if (step > 0) {
      for (let i = 0; i < integers.length; i++) integers[i] = roundWithin(step, values[i]!);
      scratch.write(integers);
    }
    return writer.finish().slice();
  }

  clear(): void {
    this.sums.fill(0);
  }

  add(message: Uint8Array): void {
    const { integers, sums, scratch } = this;
    const reader = scratch.readerOf(message);
    const step = readScale(reader);
    if (step > 0) {
      const largest = scratch.read(reader, step, integers);
      if (!isInRange(step, largest)) throw malformed('holds a value out of range');
      for (let i = 0; i < sums.length; i++) sums[i]! += integers[i]!;
    }
    reader.finish();
  }

  take(into: Float32Array, factor: number): void {
    for (let i = 0; i < into.length; i++) into[i] = this.sums[i]! * factor;
  }
}

/** As {@link roundTo}, but not beyond what is finite. */
function roundWithin(step: number, value: number): number {
  const rounded = roundTo(step, value);
  return isInRange(step, Math.abs(rounded)) ? rounded : rounded - Math.sign(rounded);
}

/** √(Σv²/n), in double precision; 0 for none. */
export function rootMeanSquare(values: Float32Array): number {
  if (values.length === 0) return 0;
  let squares = 0;
  for (let i = 0; i < values.length; i++) squares += values[i]! * values[i]!;
  return Math.sqrt(squares / values.length);
}

/** How many steps a value is, rounded. */
export function roundTo(step: number, value: number): number {
  return Math.max(-LARGEST_INTEGER, Math.min(LARGEST_INTEGER, Math.round(value / step)));
}
