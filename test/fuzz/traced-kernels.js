/** What decoding calls. */
const NAMES = [
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
class KernelTrace {
  features = new Set();
  /** Entries and bits that the kernels went through. */
  steps = 0;
  last = NAMES.length;

  restart() {
    this.features.clear();
    this.steps = 0;
    this.last = NAMES.length;
  }

  /** @param {import('../../src/kernels/kernels').Kernels} kernels */
  over(kernels) {
    const traced = { ...kernels };
    NAMES.forEach((name, number) => {
      const call = kernels[name];
      traced[name] = (a, b, c, d, e, f) => {
        this.steps += b + (name === 'decodeBitmap' ? c : 0);
        const result = call(a, b, c, d, e, f);
        this.note(number, number < RULED ? c : 0, result === -1 || result === false);
        this.last = number;
        return result;
      };
    });
    traced.riceDecodeBoth = (count, a, b) => {
      this.steps += 2 * count;
      const ends = kernels.riceDecodeBoth(count, a, b);
      for (const { parameter } of [a, b]) this.note(BOTH, parameter, ends === undefined);
      this.last = BOTH;
      return ends;
    };
    return traced;
  }

  note(number, parameter, failed) {
    this.features.add(((this.last * NAMES.length + number) * PARAMETERS + parameter) * 2 + (failed ? 1 : 0));
  }

  /** The calls that features tell of, in words: `unpackBits then indicesOf`. */
  static pairs(features) {
    const pairs = [...features].map(feature => {
      const calls = Math.floor(feature / 2 / PARAMETERS);
      return `${NAMES[Math.floor(calls / NAMES.length)] ?? 'nothing'} then ${NAMES[calls % NAMES.length]}`;
    });
    return new Set(pairs);
  }
}

module.exports = { KernelTrace };
