import { bitsToFloats, floatsToBits, HALF_TYPES } from '../../src/collectives/half-floats';
import { nearestHalf, valueOfHalf } from '../kernels/reference-kernels';
import { random } from '../support/random';

describe.each(HALF_TYPES)('%s', as => {
  const all = Uint16Array.from({ length: 2 ** 16 }, (_, bits) => bits);

  test('every pattern of bits has its value, and comes back from it', () => {
    const values = bitsToFloats(all, as);
    const expected = Float32Array.from(all, bits => valueOfHalf(as, bits));
    const wrong = all.filter(bits => !Object.is(values[bits], expected[bits]));
    expect(wrong).toHaveLength(0);
    const back = floatsToBits(values, as);
    expect(all.filter(bits => back[bits] !== bits && !Number.isNaN(values[bits]))).toHaveLength(0);
  });

  test('numbers between two are rounded to the nearest, halves to even', () => {
    const next = random(8);
    const values = bitsToFloats(all, as);
    const between = Float32Array.from({ length: 100_000 }, (_, i) => {
      if (i % 4 === 0) return new Float32Array(Uint32Array.of(next() * 2 ** 32).buffer)[0]!;
      const at = Math.floor(next() * 0x7bff) + (i % 2) * 0x8000;
      const [low, high] = [values[at]!, values[at + 1]!];
      return i % 3 === 0 ? low + (high - low) * next() : (low + high) / 2;
    });
    const bits = floatsToBits(between, as);
    const wrong = Array.from(between.keys()).filter(i => bits[i] !== nearestHalf(as, between[i]!));
    expect(wrong.map(i => between[i])).toEqual([]);
  });

  test('what is too large is infinite', () => {
    const largest = as === 'float16' ? 65_519.99 : 3.3961e38; // the next is half way to the power of two that follows
    const over = as === 'float16' ? 65_520 : 3.4e38;
    expect(bitsToFloats(floatsToBits(Float32Array.of(largest, over, -over), as), as)).toEqual(
      Float32Array.of(as === 'float16' ? 65_504 : 3.3895313892515355e38, Infinity, -Infinity),
    );
  });
});

test('other arrays and formats are refused', () => {
  const refused = expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' });
  expect(() => floatsToBits([1] as unknown as Float32Array, 'float16')).toThrow(refused);
  expect(() => floatsToBits(Float32Array.of(1), 'float8' as 'float16')).toThrow(refused);
  expect(() => bitsToFloats(Float32Array.of(1) as unknown as Uint16Array, 'float16')).toThrow(refused);
});
