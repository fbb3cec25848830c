import type { Kernels } from '../../src/kernels/kernels';

/** A kernel by its arguments, for all kernels alike. */
type Call = (...args: number[]) => number | boolean;

/** What decoding calls. */
const NAMES: readonly string[] = [
  ...['riceDecode', 'decodeClusters', 'unpackBits'],
  ...['riceDecodeBoth', 'decodeBitmap', 'decodeSubset', 'indicesOf', 'raiseSymbols', 'mirrorSymbols', 'dequantize'],
];
/** So many of these take, after the count, a width or parameter from the bytes. */
const RULED = 3;
const BOTH = NAMES.indexOf('riceDecodeBoth');

/** More than any width or parameter, so that a call and its parameter are one number. */
const PARAMETERS = 64;

/**
 * Kernels that note what is done with them: how much work it is, and the *features* of an input, one number for each
 * call with its parameter, its success and the call before. Coverage of the code would say the same of the TypeScript,
 * but nothing of the kernels; an input with a new feature is worth mutating further.
 */
export class KernelTrace {
  readonly features = new Set<number>();
  /** Entries and bits that the kernels went through. */
  steps = 0;
  private last: number = NAMES.length;

  restart(): void {
    this.features.clear();
    this.steps = 0;
    this.last = NAMES.length;
  }

  /** The kernels, noted. */
  over(kernels: Kernels): Kernels {
    const calls = kernels as object as Record<string, Call>;
    const traced: Record<string, Call> = {};
    NAMES.forEach((name, number) => {
      const call = calls[name]!;
      traced[name] = (a, b, c, d, e, f) => {
        this.steps += b + (name === 'decodeBitmap' ? c : 0);
        const result = call(a, b, c, d, e, f);
        this.note(number, number < RULED ? c : 0, result === -1 || result === false);
        this.last = number;
        return result;
      };
    });
    const riceDecodeBoth: Kernels['riceDecodeBoth'] = (count, a, b) => {
      this.steps += 2 * count;
      const ends = kernels.riceDecodeBoth(count, a, b);
      for (const { parameter } of [a, b]) this.note(BOTH, parameter, ends === undefined);
      this.last = BOTH;
      return ends;
    };
    return { ...kernels, ...traced, riceDecodeBoth };
  }

  private note(number: number, parameter: number, failed: boolean): void {
    this.features.add(((this.last * NAMES.length + number) * PARAMETERS + parameter) * 2 + (failed ? 1 : 0));
  }

  /** The calls that features tell of, in words: `unpackBits then indicesOf`. */
  static pairs(features: Iterable<number>): Set<string> {
    const pairs = [...features].map(feature => {
      const calls = Math.floor(feature / 2 / PARAMETERS);
      return `${NAMES[Math.floor(calls / NAMES.length)] ?? 'nothing'} then ${NAMES[calls % NAMES.length]}`;
    });
    return new Set(pairs);
  }
}
