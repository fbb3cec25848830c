import { methodOf } from '../../src/compression/compression-method';
import { dgc, noCompression } from '../../src/compression/dgc-options';

describe('a tensor is sent whole', () => {
  const isWhole = (denseBelow: number | undefined, ...shape: number[]) =>
    methodOf(dgc({ denseBelow })).sendsWhole(shape);

  test('if it has few dimensions or few elements', () => {
    expect(isWhole(undefined)).toBe(true);
    expect(isWhole(undefined, 1_000_000)).toBe(true);
    expect(isWhole(undefined, 33, 31)).toBe(true);
    expect(isWhole(undefined, 32, 32)).toBe(false);
    expect(isWhole(0, 1, 1)).toBe(false);
    expect(isWhole(2000, 32, 32)).toBe(true);
  });

  test('if there is no compression', () => {
    expect(methodOf(noCompression()).sendsWhole([1000, 1000])).toBe(true);
  });
});
